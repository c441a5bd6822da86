"""Nothing stands outside the build: a file that no CMakeLists.txt names is never compiled or run."""

import posixpath
import re


def listed_files(tree) -> set:
    """Every file that some CMakeLists.txt names, as a path from the root."""
    listed = set()
    for path in tree.texts:
        folder, _, name = path.rpartition("/")
        if name != "CMakeLists.txt":
            continue
        text = re.sub(r"#[^\n]*", "", tree.texts[path])
        for token in re.findall(r"[^\s()\"]+\.(?:cc|py)\b", text):
            token = token.replace("${CMAKE_CURRENT_SOURCE_DIR}/", "")
            if token.startswith("${CMAKE_SOURCE_DIR}/"):
                listed.add(posixpath.normpath(token.removeprefix("${CMAKE_SOURCE_DIR}/")))
            else:
                listed.add(posixpath.normpath(posixpath.join(folder, token)))
    return listed


def sources_listed(tree) -> list:
    """Every .cc is part of a target."""
    listed = listed_files(tree)
    return [
        f"{path}: no CMakeLists.txt names it"
        for path in tree.cpp()
        if path.endswith(".cc") and not path.endswith("_test.cc") and path not in listed
    ]


def tests_listed(tree) -> list:
    """Every *_test.cc and *_test.py is run."""
    listed = listed_files(tree)
    return [
        f"{path}: no CMakeLists.txt names it, so it never runs"
        for path in tree.texts
        if path.endswith(("_test.cc", "_test.py")) and path not in listed
    ]
