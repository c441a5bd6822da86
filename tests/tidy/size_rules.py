"""Files of at most 400 lines, functions of at most 70; what is longer is on a list that only shrinks."""

import ast
import re

from cpp_functions import functions

FILE_LINES_MAX = 400
FUNCTION_LINES_MAX = 70
RATCHET = "tests/tidy/ratchet.txt"
SOURCE = re.compile(r"(\.(h|cc|py|java|cmake|proto|sh)|CMakeLists\.txt)$")


def is_source(path: str, text: str) -> bool:
    return bool(SOURCE.search(path)) or text.startswith("#!")


def is_python(path: str, text: str) -> bool:
    return path.endswith(".py") or re.match(r"#!.*\bpython3?\b", text) is not None


def python_functions(text: str) -> list:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.name, node.lineno, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]


def file_sizes(tree) -> list:
    """(name on the ratchet, where, lines) of every source file."""
    return [
        (f"file {path}", path, text.count("\n"))
        for path, text in tree.texts.items()
        if is_source(path, text)
    ]


def function_sizes(tree) -> list:
    """The same of every function."""
    sizes = []
    for path, text in tree.texts.items():
        if path.endswith((".h", ".cc")):
            found = functions(text)
        elif is_python(path, text):
            found = python_functions(text)
        else:
            continue
        sizes += [(f"function {path} {name}", f"{path}:{line}", n) for name, line, n in found]
    return sizes


def ratchet(tree, kind: str) -> dict:
    """Allowed lines by name; each entry is 'file PATH LINES' or 'function PATH NAME LINES'."""
    entries = {}
    for _, line in tree.lines(RATCHET) if RATCHET in tree.texts else []:
        if line.startswith(kind + " "):
            name, _, lines = line.rpartition(" ")
            entries[name] = int(lines)
    return entries


def judge(sizes: list, allowed: dict, limit: int) -> list:
    faults = []
    # Two functions of one name in one file: the longest counts.
    longest = {}
    for name, where, lines in sizes:
        if lines > longest.get(name, ("", 0))[1]:
            longest[name] = (where, lines)
    for name, (where, lines) in longest.items():
        if lines > allowed.get(name, limit):
            faults.append(f"{where}: {name}: {lines} lines, at most {allowed.get(name, limit)}")
    for name, lines in allowed.items():
        now = longest.get(name, ("", 0))[1]
        if now <= limit:
            faults.append(f"{RATCHET}: {name}: no longer too long, take it off the list")
        elif now < lines:
            faults.append(f"{RATCHET}: {name}: shrank to {now} lines, write that")
    return faults


def file_length(tree) -> list:
    """A file has at most 400 lines."""
    return judge(file_sizes(tree), ratchet(tree, "file"), FILE_LINES_MAX)


def function_length(tree) -> list:
    """A function has at most 70 lines."""
    return judge(function_sizes(tree), ratchet(tree, "function"), FUNCTION_LINES_MAX)
