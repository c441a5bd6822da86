"""Finds the functions of a C++ file by its braces. Knows the code as clang-format leaves it, no more."""

import re

TYPE = re.compile(r"(template\s*<.*>\s*)?(typedef\s+)?(class|struct|union|enum)\b", re.DOTALL)
ACCESS = re.compile(r"\b(public|private|protected)\s*:(?!:)")
NAME = re.compile(r"(operator\s*(?:\(\)|[^\s\w(]+|\w+)|[~\w:]+)\s*\(")
TEST = re.compile(r"(TEST|TEST_F|TEST_P|TYPED_TEST)\s*\(([^)]*)\)")
LITERAL = re.compile(
    r'//(?:[^\n\\]|\\.)*|/\*.*?\*/|R"([^()\\\s]{0,16})\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"'
    r"|(?<![0-9a-fA-F])'(?:[^'\\\n]|\\.)+'|^[ \t]*#(?:[^\n\\]|\\.)*",
    re.DOTALL | re.MULTILINE,
)


def blanked(text: str) -> str:
    """text without comments, literals and preprocessor lines; every character keeps its place."""
    return LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def kind_of(head: str) -> str:
    """What the brace after head opens, outside functions."""
    last = head[-1:] or " "
    text = ACCESS.sub("", head).strip()
    if re.match(r"(inline\s+)?namespace\b", text) or text == "extern":
        return "scope"
    if TYPE.match(text):
        return "scope"
    if "(" not in text or text.endswith(("=", ",", "return")):
        return "value"
    # A member in a constructor's list of initializers has no blank before its brace.
    return "value" if last.isalnum() or last in "_>" else "function"


def name_of(head: str) -> str:
    text = ACCESS.sub("", head).strip()
    test = TEST.match(text)
    if test:
        return re.sub(r"\s*,\s*", ".", test.group(2).strip())
    name = NAME.search(text)
    return re.sub(r"\s+", "", name.group(1)) if name else "?"


def functions(text: str) -> list:
    """(name, first line, number of lines) of every function; lambdas inside count with theirs."""
    code = blanked(text)
    found = []
    open_braces = []  # (kind, name, first line)
    head_start = parentheses = depth = 0  # depth: braces inside the function or value at hand
    for match in re.finditer(r"[(){};]", code):
        at, char = match.start(), match.group()
        if depth > 0:
            depth += {"{": 1, "}": -1}.get(char, 0)
            if depth == 0:
                kind, name, first = open_braces.pop()
                if kind == "function":
                    found.append((name, first, code.count("\n", 0, at) + 2 - first))
                    head_start = at + 1
        elif char in "()":
            parentheses += 1 if char == "(" else -1
        elif char == ";" and parentheses == 0 or char == "}":
            if char == "}" and open_braces:
                open_braces.pop()
            head_start = at + 1
        elif char == "{":
            head = code[head_start:at]
            kind = "value" if parentheses > 0 else kind_of(head)
            blank = len(head) - len(ACCESS.sub(lambda m: " " * len(m.group()), head).lstrip())
            first = code.count("\n", 0, head_start + blank) + 1
            open_braces.append((kind, name_of(head), first))
            if kind == "scope":
                head_start = at + 1
            else:
                depth = 1
    return found
