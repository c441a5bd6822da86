"""Outcomes of tests: read from JUnit files, added up, judged against tests/skips.txt."""

import fnmatch
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Outcome:
    name: str
    state: str
    text: str = ""


class SkipList:
    def __init__(self, path: Path):
        self.path = path
        self.reasons = {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            name, _, reason = line.partition(" ")
            if not reason.strip():
                raise ValueError(f"{path}:{number}: {name} has no reason")
            self.reasons[name] = reason.strip()

    def reason(self, name: str) -> str:
        """The reason for which this test may be skipped; empty when it may not. The preset does not
        matter."""
        for pattern, reason in self.reasons.items():
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(
                name.partition(":")[2], pattern
            ):
                return reason
        return ""


def read_junit(path: Path, prefix: str) -> list:
    """All test cases of a file written by ctest or by the Spark jobs."""
    outcomes = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = prefix + case.get("name", "?")
        failure, skipped = case.find("failure"), case.find("skipped")
        if failure is not None or case.find("error") is not None or case.get("status") == "fail":
            text = (failure.get("message") if failure is not None else "") or ""
            outcomes.append(Outcome(name, FAILED, text))
        elif skipped is not None or case.get("status") in ("notrun", "disabled"):
            text = (skipped.get("message") if skipped is not None else "") or case.get("status", "")
            outcomes.append(Outcome(name, SKIPPED, text))
        else:
            outcomes.append(Outcome(name, PASSED))
    return outcomes


def judge(outcomes: list, skips: SkipList) -> tuple:
    """(exit code, lines to print before the last one, last line)."""
    failed = [outcome for outcome in outcomes if outcome.state == FAILED]
    skipped = [outcome for outcome in outcomes if outcome.state == SKIPPED]
    passed = len(outcomes) - len(failed) - len(skipped)
    lines = [
        f"failed: {outcome.name}{' (' + outcome.text + ')' if outcome.text else ''}"
        for outcome in failed
    ]
    code = 1 if failed else 0
    for outcome in skipped:
        reason = skips.reason(outcome.name)
        if reason:
            lines.append(f"skipped: {outcome.name} ({reason})")
        else:
            code = 1
            lines.append(
                f"skipped without leave: {outcome.name} ({outcome.text}); it is not in"
                f" {skips.path.name}"
            )
    if not outcomes:
        code = 1
        lines.append("no test was run")
    return code, lines, f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped"
