#!/usr/bin/env python3
"""Rules about the source text that no compiler holds.

tidy.py --root FOLDER RULE...   exits 1 and prints each fault as path:line: text
tidy.py --list                  names of the rules, one a line
"""

import argparse
import sys
from pathlib import Path

import build_rules
import include_rules
import size_rules
import text_rules
from source_tree import SourceTree

RULES = {
    rule.__name__: rule
    for rule in (
        include_rules.layers,
        include_rules.libraries,
        include_rules.generated_code,
        include_rules.own_header_first,
        include_rules.pragma_once,
        text_rules.line_length,
        text_rules.whitespace,
        text_rules.machine_paths,
        text_rules.leftover_words,
        size_rules.file_length,
        size_rules.function_length,
        build_rules.sources_listed,
        build_rules.tests_listed,
    )
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Checks rules about the source text.")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--list", action="store_true", help="print the names of the rules")
    parser.add_argument("rules", nargs="*", metavar="RULE", help="all when none is named")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(RULES))
        return 0
    unknown = [name for name in arguments.rules if name not in RULES]
    if unknown:
        parser.error(f"no such rule: {', '.join(unknown)}; --list names them")
    tree = SourceTree(arguments.root)
    if not tree.texts:
        parser.error(f"{arguments.root} holds no files")
    faults = 0
    for name in arguments.rules or RULES:
        for fault in RULES[name](tree):
            print(f"{fault} [{name}]")
            faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
