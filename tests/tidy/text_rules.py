"""What no line of a committed file may hold."""

import re

LINE_COLUMNS_MAX = 100
# Put together from pieces, so that this file passes its own rules.
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:(?:wo" r"rk|ro" r"ot|ho" r"me)\b|tmp/(?:ba" r"sh|d" r"v\b))")
LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")


def line_length(tree) -> list:
    """C++ lines have at most 100 columns."""
    return [
        f"{path}:{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}; run clang-format"
        for path in tree.cpp()
        for number, line in tree.lines(path)
        if len(line) > LINE_COLUMNS_MAX
    ]


def whitespace(tree) -> list:
    """No blanks or carriage returns at the end of a line, exactly one newline at the end of a file."""
    faults = []
    for path, text in tree.texts.items():
        for number, line in tree.lines(path):
            if line != line.rstrip():
                faults.append(f"{path}:{number}: whitespace at the end of the line")
        if text and (not text.endswith("\n") or text.endswith("\n\n")):
            faults.append(f"{path}: must end with exactly one newline")
    return faults


def machine_paths(tree) -> list:
    """Nothing of the machine that it was written on."""
    return [
        f"{path}:{number}: path of some machine: {match.group()}"
        for path in tree.texts
        for number, line in tree.lines(path)
        for match in [MACHINE_PATH.search(line)]
        if match
    ]


def leftover_words(tree) -> list:
    """What is not done yet is an issue, not a comment."""
    return [
        f"{path}:{number}: leftover {match.group()}"
        for path in tree.texts
        for number, line in tree.lines(path)
        for match in [LEFTOVER.search(line)]
        if match
    ]
