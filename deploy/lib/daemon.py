"""A dovetaild of our own: started, watched, asked for its metrics, stopped.

Used by the quickstart and by the tests.
"""

import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

READY_LINE = re.compile(r"ready: grpc=(\S+):(\d+) http=(\S+):(\d+)")
SERIES_LINE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')

# Gauges that say what is in use. All of them are 0 when no application is there.
GAUGES_OF_USE = (
    "dovetail_memory_used_bytes",
    "dovetail_memory_promised_bytes",
    "dovetail_tickets",
    "dovetail_require_waiting",
    "dovetail_read_bytes_in_flight",
    "dovetail_read_waiting",
    "dovetail_apps",
    "dovetail_shuffles",
    "dovetail_partitions",
    "dovetail_report_bytes",
    "dovetail_arena_used_bytes",
    "dovetail_flushing_bytes",
    "dovetail_extents",
    "dovetail_removals_pending",
    "dovetail_index_cache_bytes",
)

# The same for each data path. A daemon without data paths has none of them.
DISK_GAUGES_OF_USE = (
    "dovetail_disk_flush_bytes_in_flight",
    "dovetail_disk_removals_pending",
    "dovetail_disk_segments",
    "dovetail_disk_reserved_bytes",
    "dovetail_disk_open_descriptors",
    "dovetail_disk_operations_in_flight",
)


class DaemonError(Exception):
    pass


class Metrics:
    """One reading of /metrics."""

    def __init__(self, text: str):
        self.series = []
        for line in text.splitlines():
            match = SERIES_LINE.match(line)
            if match:
                labels = dict(LABEL.findall(match.group(2) or ""))
                self.series.append((match.group(1), labels, float(match.group(3))))

    def counter(self, name: str, **labels: str) -> float:
        """Sum of all series with these labels; 0 when nothing was counted yet."""
        return sum(value for _, _, value in self._matching(name, labels))

    def gauge(self, name: str, **labels: str) -> float:
        """Like counter, but what is not exported is an error: no 0 from a misspelt name."""
        found = self._matching(name, labels)
        if not found:
            raise DaemonError(f"/metrics has no {name}{labels or ''}")
        return sum(value for _, _, value in found)

    def in_use(self) -> dict:
        """The gauges of use that are not 0; one of a data path as name{path}."""
        values = {name: self.gauge(name) for name in GAUGES_OF_USE}
        for _, labels, _ in self._matching("dovetail_disk_usable", {}):
            path = labels["path"]
            for name in DISK_GAUGES_OF_USE:
                values[f"{name}{{{path}}}"] = self.gauge(name, path=path)
        return {name: value for name, value in values.items() if value != 0}

    def labels(self, name: str) -> dict:
        """Labels of the first series of this name, for *_info gauges."""
        return next((labels for series, labels, _ in self.series if series == name), {})

    def _matching(self, name, labels):
        return [
            entry
            for entry in self.series
            if entry[0] == name and all(entry[1].get(key) == value for key, value in labels.items())
        ]


def port_is_free(port: int, address: str = "127.0.0.1") -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
            return True
        except OSError:
            return False


class Daemon:
    """Starts the binary with its working directory and its log in `folder`. `settings` are --set
    options."""

    def __init__(
        self,
        binary: Path,
        folder: Path,
        settings: dict,
        config: Path = None,
        environment: dict = None,
    ):
        self.log_path = folder / "dovetaild.log"
        command = [str(binary)]
        if config:
            command += ["--config", str(config)]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        self.command = command
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with open(self.log_path, "wb") as log:
                # A session of its own: Ctrl-C in a terminal reaches us, and we stop the daemon in
                # order.
                self.process = subprocess.Popen(
                    command,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    start_new_session=True,
                )
        except OSError as error:
            raise DaemonError(f"dovetaild could not be started: {error}") from error

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Reads the real ports from the log and waits until new work is taken."""
        deadline = time.monotonic() + timeout
        match = None
        while not match:
            match = READY_LINE.search(self.log_text())
            self._check_alive("before it was ready")
            if not match and time.monotonic() > deadline:
                raise DaemonError(f"dovetaild was not ready within {timeout:.0f} s")
            if not match:
                time.sleep(0.05)
        self.grpc = f"{match.group(1)}:{match.group(2)}"
        self.http = f"http://{match.group(3)}:{match.group(4)}"
        while True:
            try:
                self.get("/readyz")
                return
            except (urllib.error.URLError, OSError) as error:
                self._check_alive("before it was ready")
                if time.monotonic() > deadline:
                    raise DaemonError(f"{self.http}/readyz still says: {error}") from error
                time.sleep(0.05)

    def get(self, path: str) -> str:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            self.http + path, timeout=10
        ) as reply:
            return reply.read().decode()

    def metrics(self) -> Metrics:
        try:
            return Metrics(self.get("/metrics"))
        except (urllib.error.URLError, OSError) as error:
            self._check_alive("while it was needed")
            raise DaemonError(f"{self.http}/metrics cannot be read: {error}") from error

    def wait_idle(self, timeout: float = 30.0) -> dict:
        """Waits until every gauge of use is 0; returns those that are not when the time is up."""
        deadline = time.monotonic() + timeout
        while True:
            left = self.metrics().in_use()
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.1)

    def running(self) -> bool:
        return self.process.poll() is None

    def stop(self, timeout: float = 30.0) -> int:
        """SIGTERM; returns the exit code. SIGKILL after the timeout, which shows as -9."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def log_text(self) -> str:
        try:
            return self.log_path.read_text(errors="replace")
        except OSError:
            return ""

    def log_tail(self, lines: int = 40) -> str:
        return "\n".join(self.log_text().splitlines()[-lines:])

    def _check_alive(self, when: str) -> None:
        code = self.process.poll()
        if code is not None:
            raise DaemonError(f"dovetaild ended with exit code {code} {when}")
