"""deploy/lib/daemon.py: what a report is built on must not read a 0 that is none."""

import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "deploy" / "lib"))
from daemon import (  # noqa: E402
    DISK_GAUGES_OF_USE,
    GAUGES_OF_USE,
    Daemon,
    DaemonError,
    Metrics,
)

PAGE = """# HELP dovetail_read_bytes_total Bytes
# TYPE dovetail_read_bytes_total counter
dovetail_read_bytes_total{tier="memory"} 1.5e+03
dovetail_read_bytes_total{tier="file"} 20
dovetail_grpc_requests_total{method="getShuffleResult",status="SUCCESS"} 7
dovetail_grpc_requests_total{method="getShuffleResult",status="NO_BUFFER"} 2
dovetail_build_info{version="0.1.0",commit="a\\"b"} 1
dovetail_apps 3
"""


class MetricsTest(unittest.TestCase):
    def setUp(self):
        self.metrics = Metrics(PAGE)

    def test_counter_sums_over_the_labels_not_given(self):
        self.assertEqual(self.metrics.counter("dovetail_read_bytes_total"), 1520)
        self.assertEqual(self.metrics.counter("dovetail_read_bytes_total", tier="memory"), 1500)
        method = {"method": "getShuffleResult"}
        self.assertEqual(self.metrics.counter("dovetail_grpc_requests_total", **method), 9)
        self.assertEqual(self.metrics.counter("dovetail_nothing_total"), 0)

    def test_gauge_must_be_there(self):
        self.assertEqual(self.metrics.gauge("dovetail_apps"), 3)
        with self.assertRaises(DaemonError):
            self.metrics.gauge("dovetail_appz")

    def test_in_use_names_what_is_not_zero(self):
        page = "".join(f"{name} 0\n" for name in GAUGES_OF_USE)
        self.assertEqual(Metrics(page).in_use(), {})
        page = page.replace("dovetail_tickets 0", "dovetail_tickets 2")
        self.assertEqual(Metrics(page).in_use(), {"dovetail_tickets": 2})

    def test_in_use_looks_at_every_data_path(self):
        page = "".join(f"{name} 0\n" for name in GAUGES_OF_USE)
        for path in ("/a", "/b"):
            page += f'dovetail_disk_usable{{path="{path}"}} 1\n'
            page += "".join(f'{name}{{path="{path}"}} 0\n' for name in DISK_GAUGES_OF_USE)
        self.assertEqual(Metrics(page).in_use(), {})
        # One path must not make up for another.
        one, other = (f'dovetail_disk_segments{{path="{path}"}} ' for path in ("/a", "/b"))
        uneven = page.replace(one + "0", one + "2").replace(other + "0", other + "-2")
        self.assertEqual(
            Metrics(uneven).in_use(),
            {"dovetail_disk_segments{/a}": 2, "dovetail_disk_segments{/b}": -2},
        )
        with self.assertRaises(DaemonError):
            Metrics(page.replace(other, "renamed ")).in_use()

    def test_labels(self):
        self.assertEqual(self.metrics.labels("dovetail_build_info")["version"], "0.1.0")


class DaemonTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)

    def program(self, script: str) -> Path:
        path = self.folder / "program"
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)
        return path

    def test_an_early_end_is_told_with_its_code(self):
        daemon = Daemon(self.program("echo no such key; exit 3"), self.folder, {"a": 1})
        with self.assertRaisesRegex(DaemonError, "exit code 3"):
            daemon.wait_ready(10)
        self.assertIn("no such key", daemon.log_tail())
        self.assertEqual(daemon.command[1:], ["--set", "a=1"])

    def test_one_that_does_not_stop_is_killed(self):
        daemon = Daemon(
            self.program("trap '' TERM; echo up; while :; do sleep 0.1; done"), self.folder, {}
        )
        while "up" not in daemon.log_text():
            self.assertTrue(daemon.running())
            time.sleep(0.02)
        self.assertEqual(daemon.stop(0.5), -9)

    def test_a_missing_binary(self):
        with self.assertRaisesRegex(DaemonError, "could not be started"):
            Daemon(self.folder / "nothing", self.folder, {})


if __name__ == "__main__":
    unittest.main()
