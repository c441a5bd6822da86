"""Builds the presets, runs their tests and the Spark jobs, adds everything up. Called by tests/run
after the set-up."""

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from outcomes import FAILED, PASSED, Outcome, SkipList, judge, read_junit  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SPARK_PYTHON = ROOT / ".cache" / "venv" / "bin" / "python"
SPARK_JOBS = ROOT / "tests" / "e2e" / "spark" / "run.py"
TEST_TIMEOUT_SECONDS = 300

SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "detect_leaks=1:strict_string_checks=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


@dataclass
class Suite:
    preset: str
    spark_jobs: str = ""  # regular expression; empty for none
    spark_options: tuple = ()

    @property
    def prefix(self) -> str:
        return "" if self.preset == "release" else f"{self.preset}:"

    @property
    def folder(self) -> Path:
        return ROOT / "build" / self.preset


def suites(options) -> list:
    listed = [Suite("release", spark_jobs=".")]
    if options.all:
        # One job is enough to take the sanitizers through a real client's whole life; their daemon
        # is slow.
        asan = ("--scale", "0.25", "--timeout", "900")
        listed.append(Suite("asan", spark_jobs=r"spark\.repartition$", spark_options=asan))
        listed.append(Suite("tsan"))
    return listed


class Runner:
    def __init__(self, options):
        self.options = options
        self.environment = {**os.environ, **SANITIZER_ENVIRONMENT}
        self.outcomes = []
        self.started = time.monotonic()

    def say(self, text: str) -> None:
        print(f"== [{time.monotonic() - self.started:5.0f} s] {text}", flush=True)

    def call(self, *command) -> int:
        return subprocess.call(
            [str(part) for part in command],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
        )

    def record(self, name: str, good: bool, text: str) -> bool:
        """What is no test of its own but must not go unseen: builds, runs that broke off."""
        if not good:
            print(f"FAILED {name}: {text}", flush=True)
            self.outcomes.append(Outcome(name, FAILED, text))
        return good

    def build(self, suite: Suite) -> bool:
        self.say(f"{suite.preset}: configuring and building")
        good = self.call("cmake", "--preset", suite.preset) == 0
        good = good and self.call("cmake", "--build", "--preset", suite.preset) == 0
        return self.record(f"{suite.prefix}build", good, "the build failed; what broke is above")

    def add_results(self, name: str, junit: Path, prefix: str, code: int) -> None:
        if not junit.exists():
            if code != 0 or not self.options.filter:
                self.record(name, False, f"exit code {code}, and no results were written")
            return
        found = [outcome for outcome in read_junit(junit, prefix)]
        self.outcomes += found
        if not found and not self.options.filter:
            self.record(name, False, "no test was run")
        if code != 0 and not any(outcome.state != PASSED for outcome in found):
            self.record(name, False, f"exit code {code}, though no test of it failed")

    def unit_tests(self, suite: Suite) -> None:
        self.say(f"{suite.preset}: unit tests")
        junit = suite.folder / "junit.xml"
        junit.unlink(missing_ok=True)
        command = [
            "ctest",
            "--test-dir",
            suite.folder,
            "--output-junit",
            junit,
            "--output-on-failure",
        ]
        command += ["--parallel", os.cpu_count() or 1, "--timeout", TEST_TIMEOUT_SECONDS]
        command += ["--progress"] if sys.stdout.isatty() else []
        if self.options.filter:
            command += [
                "--tests-regex",
                self.options.filter.removeprefix(suite.prefix),
                "--no-tests=ignore",
            ]
        else:
            command += ["--no-tests=error"]
        self.add_results(f"{suite.prefix}ctest", junit, suite.prefix, self.call(*command))

    def spark_jobs(self, suite: Suite) -> None:
        jobs = suite.spark_jobs
        if self.options.filter:
            # Both must match: the suite's choice of jobs and the user's.
            jobs = f"(?=.*(?:{self.options.filter.removeprefix(suite.prefix)})){jobs}"
        self.say(f"{suite.preset}: Spark jobs")
        junit = suite.folder / "junit-spark.xml"
        junit.unlink(missing_ok=True)
        daemon = suite.folder / "bin" / "dovetaild"
        command = [
            SPARK_PYTHON,
            "-u",
            SPARK_JOBS,
            "--daemon",
            daemon,
            "--junit",
            junit,
            "--jobs",
            jobs,
        ]
        code = self.call(*command, "--prefix", suite.prefix, *suite.spark_options)
        self.add_results(f"{suite.prefix}spark", junit, "", code)

    def run(self) -> int:
        for suite in suites(self.options):
            if not self.build(suite):
                continue
            self.unit_tests(suite)
            if suite.spark_jobs and not self.options.no_spark:
                self.spark_jobs(suite)
        code, lines, last = judge(self.outcomes, SkipList(ROOT / "tests" / "skips.txt"))
        self.say("done")
        print("\n".join(lines + [last]), flush=True)
        return code


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--filter", default="")
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    try:
        re.compile(options.filter)
    except re.error as error:
        print(f"tests/run: --filter: {error}", file=sys.stderr)
        return 2
    return Runner(options).run()


if __name__ == "__main__":
    sys.exit(main())
