"""Runs the real Spark jobs through a daemon and compares each with Spark's own shuffle.

Called by tests/run; by hand after a build, with the Python of the set-up:
  .cache/venv/bin/python tests/e2e/spark/run.py [--jobs REGEX] [--daemon PATH] [--help]
"""

import argparse
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT / "deploy" / "lib"))
from checks import Highest, OLD_CLIENT, Run, Wrong, check_bytes, jobs, require  # noqa: E402
from tiers import Tier, tiers  # noqa: E402
from daemon import Daemon, DaemonError  # noqa: E402
from spark_application import (  # noqa: E402
    SparkApplication,
    SparkError,
    client_jar,
    local_settings,
    shuffle_settings,
)

KRYO = {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"}


@dataclass
class Outcome:
    name: str
    seconds: float
    error: str = ""


class Harness:
    def __init__(self, options, folder: Path):
        self.options = options
        self.folder = folder
        self.outcomes = []
        self.applications = {}
        self.daemon = None
        self.tier = None
        self.expected = {}
        self.killed = []
        self.jobs = jobs(options.scale)
        self.tiers = [tier for tier in tiers() if self.selected(tier)]

    def selected(self, tier: Tier) -> list:
        """The jobs that are to run through this tier's daemon."""
        return [
            job
            for place, job in enumerate(self.jobs)
            if tier.takes(job, place) and re.search(self.options.jobs, f"spark.{tier.prefix}{job.name}")
        ]

    def log(self, text: str) -> None:
        print(text, flush=True)

    def start_application(self, name: str, settings: dict) -> SparkApplication:
        every = {**local_settings(driver_memory="3g"), **settings}
        application = SparkApplication(name, every, HERE / "jobs.py", self.folder)
        self.applications[name] = application
        return application

    def compute_expected(self) -> None:
        """All jobs in one application with Spark's own shuffle."""
        self.log("== Spark jobs: computing what is right with Spark's own shuffle")
        plain = self.start_application("plain", KRYO)
        wanted = [job for job in self.jobs if any(job in self.selected(t) for t in self.tiers)]
        for job in wanted:
            for step in job.steps + ([job.also] if job.also else []):
                key = self.key(step)
                if key not in self.expected or step.function == "shared_shuffle":
                    answer = plain.run(step.function, self.options.timeout, **step.arguments)
                    self.expected[key] = answer["fingerprint"]
        self.applications.pop("plain").stop()

    @staticmethod
    def key(step) -> str:
        return f"{step.function} {sorted(step.arguments.items())}"

    def application_for(self, version: str) -> SparkApplication:
        name = f"{self.tier.name}-client-{version}"
        if name not in self.applications:
            self.start_application(name, shuffle_settings(client_jar(version), self.daemon.grpc))
        return self.applications[name]

    def compare(self, step, answer: dict) -> None:
        expected = self.expected[self.key(step)]
        require(
            answer["fingerprint"] == expected,
            f"the result is wrong:\n  through the daemon    {answer['fingerprint']}\n  Spark's own"
            f" shuffle   {expected}",
        )

    def run_step(self, job, step) -> Run:
        application = self.application_for(job.client or self.options.client_jar_version)
        other = None
        if job.also:
            other = self.application_for(OLD_CLIENT)
            other.run(
                "repartition", self.options.timeout, rows=1000
            )  # its JVM is up when both begin
            self.wait_memory_free()
        before = self.daemon.metrics()
        highest = Highest()
        watch = lambda: highest.sample(self.daemon.metrics())  # noqa: E731
        application.start(step.function, **step.arguments)
        if other:
            other.start(job.also.function, **job.also.arguments)
        answer = application.result(self.options.timeout, watch)
        if other:
            self.compare(job.also, other.result(self.options.timeout, watch))
        run = Run(step, before, self.daemon.metrics(), answer["facts"], highest)
        self.compare(step, answer)
        check_bytes(
            run, step.payload_bytes + (job.also.payload_bytes if other else 0), self.tier.files
        )
        return run

    def run_job(self, job) -> str:
        runs = [self.run_step(job, step) for step in job.steps]
        if job.check:
            job.check(runs)
        if self.tier.files:
            self.check_spilled(runs)
        self.wait_memory_free()
        received = sum(run.moved("dovetail_received_bytes_total") for run in runs)
        memory = sum(run.moved("dovetail_read_bytes_total", tier="memory") for run in runs)
        file = sum(run.moved("dovetail_read_bytes_total", tier="file") for run in runs)
        return (
            f"{received / 1e6:.1f} MB in, {memory / 1e6:.1f} MB out of memory,"
            f" {file / 1e6:.1f} MB out of files"
        )

    def check_spilled(self, runs: list) -> None:
        """A job about files must have met them, and memory too."""
        for name, labels in (
            ("dovetail_flushed_bytes_total", {}),
            ("dovetail_disk_groups_total", {}),
            ("dovetail_read_bytes_total", {"tier": "file"}),
            ("dovetail_index_read_bytes_total", {}),
            ("dovetail_read_bytes_total", {"tier": "memory"}),
        ):
            moved = sum(run.moved(name, **labels) for run in runs)
            require(moved > 0, f"{name}{labels or ''} did not move: the job met only one tier")
        for kind in ("append", "read"):
            bytes_of_engine = sum(
                run.moved("dovetail_engine_bytes_total", kind=kind) for run in runs
            )
            bytes_of_rings = sum(run.moved("dovetail_uring_bytes_total", kind=kind) for run in runs)
            expected = bytes_of_engine if self.tier.engine == "io_uring" else 0
            require(
                bytes_of_engine > 0 and bytes_of_rings == expected,
                f"{bytes_of_rings:.0f} of {bytes_of_engine:.0f} bytes ({kind}) went through rings;"
                f" the engine should be {self.tier.engine}",
            )
        failed = sum(run.moved("dovetail_disk_append_failures_total") for run in runs)
        require(failed == 0, f"{failed:.0f} groups could not be written")

    def wait_memory_free(self, timeout: float = 30.0) -> None:
        """While the applications live on: they collect their garbage, Spark unregisters the
        shuffles that are over, and their memory comes back."""
        deadline = time.monotonic() + timeout
        # Not dovetail_shuffles: Spark keeps those that it registered and never wrote.
        names = (
            "dovetail_memory_used_bytes",
            "dovetail_partitions",
            "dovetail_extents",
            "dovetail_removals_pending",
        )
        while True:
            metrics = self.daemon.metrics()
            left = {name: metrics.gauge(name) for name in names if metrics.gauge(name)}
            if not left:
                return
            require(
                time.monotonic() < deadline,
                f"shuffles that nobody needs any more were not freed: {left}",
            )
            for application in self.applications.values():
                application.run("collect_garbage", self.options.timeout)
            time.sleep(0.2)

    def check_idle(self) -> str:
        """Each application ends with data in the daemon: taking leave has to free it. (Released
        clients that have no shuffle left when they end do not take leave at all.)"""
        require(not self.killed, f"killed after a failed test, so nothing to judge: {self.killed}")
        require(self.daemon.running(), "the daemon has ended before")
        for name, application in self.applications.items():
            application.run("hold_shuffle", self.options.timeout, rows=1000)
            held = self.daemon.metrics().gauge("dovetail_memory_used_bytes")
            require(held > 0, f"{name} left nothing behind that its end could free")
            application.stop()
        self.applications.clear()
        left = self.daemon.wait_idle()
        require(not left, f"the applications have ended, but these gauges are not 0: {left}")
        files = self.tier.left_behind()
        require(not files, f"the applications have ended, but these are left: {files[:5]}")
        return "every gauge of use is 0, no file is left"

    def check_stop(self) -> str:
        code = self.daemon.stop(60)
        self.daemon = None
        require(code == 0, f"dovetaild ended with exit code {code} after SIGTERM")
        return "exit code 0"

    def test(self, name: str, function, *arguments) -> None:
        """Runs one test and keeps its outcome; what is wrong is printed with the logs around it."""
        name = self.full_name(name)
        started = time.monotonic()
        log_start = len(self.daemon.log_text()) if self.daemon else 0
        try:
            text = function(*arguments)
            outcome = Outcome(name, time.monotonic() - started)
            self.log(f"   passed {name} ({outcome.seconds:.1f} s{': ' + text if text else ''})")
        except (Wrong, DaemonError, SparkError, OSError) as error:
            outcome = Outcome(name, time.monotonic() - started, str(error) or repr(error))
            self.log(f"   FAILED {name} ({outcome.seconds:.1f} s)\n{outcome.error}")
            self.show_logs(log_start)
            self.drop_stuck_applications()
        self.outcomes.append(outcome)

    def full_name(self, name: str) -> str:
        return f"{self.options.prefix}spark.{self.tier.prefix if self.tier else ''}{name}"

    def drop_stuck_applications(self) -> None:
        """An application that still has a job of a failed test must not answer the next test."""
        for name in [name for name, each in self.applications.items() if each.pending]:
            self.applications.pop(name).kill()
            self.killed.append(name)

    def show_logs(self, log_start: int) -> None:
        if self.daemon:
            lines = self.daemon.log_text()[log_start:].splitlines()[-40:]
            self.log(f"-- the daemon's log meanwhile ({self.daemon.log_path})\n" + "\n".join(lines))
        for application in self.applications.values():
            self.log(f"-- warnings and errors of {application.log_path}")
            self.log(application.relevant_log(25))

    def start_daemon(self) -> str:
        settings = {
            "bind_address": "127.0.0.1",
            "advertise_host": "127.0.0.1",
            "grpc_port": 0,
            "http_port": 0,
            **self.tier.settings,
        }
        binary = Path(self.options.daemon).resolve()
        require(binary.exists(), f"{binary} is not there: build it first")
        self.daemon = Daemon(
            binary, self.folder / self.tier.name, settings, config=ROOT / "config" / "dovetail.toml"
        )
        self.daemon.wait_ready()
        return f"{self.daemon.grpc}, {self.daemon.http}"

    def run(self) -> None:
        if not self.tiers:
            return
        self.test("expected_results", self.compute_expected)
        if self.outcomes[-1].error:
            return
        for tier in self.tiers:
            self.run_tier(tier)

    def run_tier(self, tier: Tier) -> None:
        self.log(f"== Spark jobs through the daemon: {tier.meaning}")
        self.tier = tier
        tier.prepare(self.folder)
        self.test("daemon_starts", self.start_daemon)
        if self.outcomes[-1].error:
            for job in self.selected(tier):
                self.outcomes.append(Outcome(self.full_name(job.name), 0, "not run: see above"))
            return
        for job in self.selected(tier):
            self.test(job.name, self.run_job, job)
        self.test("idle_after_the_applications", self.check_idle)
        self.test("daemon_stops_in_order", self.check_stop)
        self.close()

    def close(self) -> None:
        for application in self.applications.values():
            application.kill()
        self.applications.clear()
        if self.daemon:
            self.daemon.stop(10)
            self.daemon = None
        self.killed.clear()


def write_junit(path: Path, outcomes: list) -> None:
    suite = ElementTree.Element("testsuite", name="spark", tests=str(len(outcomes)))
    for outcome in outcomes:
        case = ElementTree.SubElement(
            suite, "testcase", name=outcome.name, time=f"{outcome.seconds:.3f}"
        )
        if outcome.error:
            ElementTree.SubElement(case, "failure", message=outcome.error.splitlines()[0]).text = (
                outcome.error
            )
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs real Spark jobs through dovetaild.")
    parser.add_argument("--daemon", default=str(ROOT / "build" / "release" / "bin" / "dovetaild"))
    parser.add_argument("--client-jar-version", default="0.9.2")
    parser.add_argument(
        "--jobs", default="", metavar="REGEX", help="only jobs whose name spark.NAME matches"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of rows")
    parser.add_argument(
        "--timeout", type=float, default=300.0, help="seconds that one job may take"
    )
    parser.add_argument("--prefix", default="", help="put before the names of the tests")
    parser.add_argument("--junit", type=Path, help="write the outcomes here")
    parser.add_argument("--keep", action="store_true", help="keep the logs also when all is well")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dovetail-spark-"))
    harness = Harness(options, folder)
    try:
        harness.run()
    finally:
        harness.close()
        if options.junit:
            options.junit.parent.mkdir(parents=True, exist_ok=True)
            write_junit(options.junit, harness.outcomes)
    failed = [outcome.name for outcome in harness.outcomes if outcome.error]
    if failed or options.keep:
        print(f"   the logs are in {folder}", flush=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print(
        f"   Spark jobs: {len(harness.outcomes) - len(failed)} passed, {len(failed)} failed",
        flush=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
