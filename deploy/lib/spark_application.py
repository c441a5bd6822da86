"""A Spark application in a process of its own that runs jobs when told to (spark_worker.py is the
other end)."""

import json
import os
import re
import select
import signal
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
PYTHON = CACHE / "venv" / "bin" / "python"
SPARK_SUBMIT = CACHE / "venv" / "bin" / "spark-submit"
WORKER = Path(__file__).resolve().parent / "spark_worker.py"
RELEVANT = re.compile(r"\b(WARN|ERROR|FATAL|Exception|Error)\b|Caused by")


class SparkError(Exception):
    pass


def client_jar(version: str) -> Path:
    return CACHE / "jars" / f"rss-client-spark3-shaded-{version}.jar"


def shuffle_settings(jar: Path, coordinator: str) -> dict:
    """The settings that send an application's shuffles to Dovetail."""
    return {
        "spark.jars": str(jar),
        "spark.driver.extraClassPath": str(jar),
        "spark.shuffle.manager": "org.apache.spark.shuffle.RssShuffleManager",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.rss.coordinator.quorum": coordinator,
        "spark.rss.storage.type": "MEMORY_LOCALFILE",
        "spark.rss.client.type": "GRPC",
        "spark.rss.data.replica": "1",
    }


def local_settings(cores: int = 2, driver_memory: str = "2g") -> dict:
    """One JVM on this machine, reachable from this machine only."""
    return {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": driver_memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
    }


class SparkApplication:
    """Jobs are the functions of the Python file `jobs`, called as function(spark, **arguments); see
    run()."""

    def __init__(self, name: str, settings: dict, jobs: Path, folder: Path):
        self.name = name
        self.log_path = folder / f"spark-{name}.log"
        folder.mkdir(parents=True, exist_ok=True)
        scratch = folder / f"spark-{name}.tmp"
        scratch.mkdir(exist_ok=True)
        settings = {
            "spark.app.name": name,
            "spark.local.dir": str(scratch),
            "spark.sql.warehouse.dir": str(scratch / "warehouse"),
            **settings,
        }
        environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(scratch)}
        # What a user has set for Spark of their own must not change what is tried here.
        for variable in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYTHONPATH"):
            environment.pop(variable, None)
        self._log = open(self.log_path, "wb")
        self.process = subprocess.Popen(
            [str(PYTHON), str(WORKER), str(jobs), json.dumps(settings)],
            cwd=scratch,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            start_new_session=True,
        )
        # A job was started whose result was not taken yet: no other may follow.
        self.pending = False
        self._buffer = b""
        self._ended = False

    def start(self, job: str, **arguments) -> None:
        """Begins a job; its result comes from result()."""
        assert not self.pending
        self.pending = True
        try:
            self.process.stdin.write(
                (json.dumps({"job": job, "arguments": arguments}) + "\n").encode()
            )
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SparkError(f"the Spark application {self.name} has ended") from None

    def result(self, timeout: float, watch=None):
        """Waits for the result of the last start(). `watch` is called about five times a second
        meanwhile."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([self.process.stdout], [], [], 0.2)
            if readable:
                chunk = os.read(self.process.stdout.fileno(), 1 << 16)
                if not chunk:
                    code = self.process.wait()
                    raise SparkError(
                        f"the Spark application {self.name} ended with exit code {code}"
                    )
                self._buffer += chunk
            elif time.monotonic() > deadline:
                raise SparkError(
                    f"the Spark application {self.name} gave no result within {timeout:.0f} s"
                )
            if watch:
                watch()
        line, self._buffer = self._buffer.split(b"\n", 1)
        self.pending = False
        answer = json.loads(line)
        if "error" in answer:
            raise SparkError(answer["error"])
        return answer["result"]

    def run(self, job: str, timeout: float = 300.0, watch=None, **arguments):
        self.start(job, **arguments)
        return self.result(timeout, watch)

    def stop(self, timeout: float = 60.0) -> None:
        """Ends the application in order: it takes leave of its shuffle servers."""
        self._end(timeout, force=False)

    def kill(self) -> None:
        self._end(0, force=True)

    def relevant_log(self, lines: int = 40) -> str:
        try:
            text = self.log_path.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(
            [line[:300] for line in text.splitlines() if RELEVANT.search(line)][-lines:]
        )

    def _end(self, timeout: float, force: bool) -> None:
        if self._ended:
            return
        self._ended = True
        try:
            self.process.stdin.close()
            if not force:
                self.process.wait(timeout)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            pass
        # The group holds the JVM too, which must not outlive us even when Python was quicker.
        deadline = time.monotonic() + (0 if force else 10)
        while self._group_exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        if self._group_exists():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()

    def _group_exists(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
            return True
        except ProcessLookupError:
            return False
