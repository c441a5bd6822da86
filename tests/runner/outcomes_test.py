"""How tests/run adds up: what ctest writes must never turn into a pass that was none."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from outcomes import FAILED, PASSED, SKIPPED, Outcome, SkipList, judge, read_junit  # noqa: E402

# As ctest 3.25 writes it.
CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux" tests="4" failures="1" disabled="1" skipped="1">
  <testcase name="A.Good" classname="A.Good" time="0.01" status="run"><system-out/></testcase>
  <testcase name="A.Bad" classname="A.Bad" time="0.01" status="fail">
    <failure message=""/><system-out>boom</system-out></testcase>
  <testcase name="A.Missing" classname="A.Missing" time="0" status="notrun">
    <skipped message="Unable to find executable"/></testcase>
  <testcase name="A.Off" classname="A.Off" time="0" status="disabled"/>
</testsuite>
"""


class OutcomesTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name: str, text: str) -> Path:
        path = Path(self.folder.name) / name
        path.write_text(text)
        return path

    def skips(self, text: str = "") -> SkipList:
        return SkipList(self.write("skips.txt", text))

    def test_reads_every_state_of_ctest(self):
        outcomes = read_junit(self.write("junit.xml", CTEST), "asan:")
        states = {outcome.name: outcome.state for outcome in outcomes}
        expected = {
            "asan:A.Good": PASSED,
            "asan:A.Bad": FAILED,
            "asan:A.Missing": SKIPPED,
            "asan:A.Off": SKIPPED,
        }
        self.assertEqual(states, expected)

    def test_all_passed(self):
        code, lines, last = judge([Outcome("A", PASSED), Outcome("B", PASSED)], self.skips())
        self.assertEqual((code, lines, last), (0, [], "2 passed, 0 failed, 0 skipped"))

    def test_no_test_is_a_failure(self):
        code, _, last = judge([], self.skips())
        self.assertEqual((code, last), (1, "0 passed, 0 failed, 0 skipped"))

    def test_a_failure_is_named(self):
        code, lines, last = judge([Outcome("A", PASSED), Outcome("B", FAILED, "why")], self.skips())
        self.assertEqual((code, last), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(lines, ["failed: B (why)"])

    def test_a_skip_needs_leave(self):
        outcomes = [Outcome("A", PASSED), Outcome("asan:B.C", SKIPPED, "no disk")]
        self.assertEqual(judge(outcomes, self.skips())[0], 1)
        self.assertEqual(judge(outcomes, self.skips("B.D  another\n"))[0], 1)
        code, lines, last = judge(outcomes, self.skips("# comment\n\nB.*  needs a disk\n"))
        self.assertEqual((code, last), (0, "1 passed, 0 failed, 1 skipped"))
        self.assertEqual(lines, ["skipped: asan:B.C (needs a disk)"])

    def test_leave_needs_a_reason(self):
        with self.assertRaises(ValueError):
            self.skips("B.C\n")


if __name__ == "__main__":
    unittest.main()
