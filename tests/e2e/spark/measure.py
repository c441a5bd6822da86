"""The measurement by hand: one large shuffle through the daemon, and what it cost the server.

After deploy/quickstart or tests/run has set everything up and built the release preset:
  .cache/venv/bin/python tests/e2e/spark/measure.py [--rows 20000000] [--partitions 32] [--plain]

Server CPU is user + system time of the process from before the first register until every gauge of
use is 0 again. --text-payload makes rows of hex text, which the client's LZ4 shrinks to about 70%.
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "deploy" / "lib"))
from daemon import Daemon  # noqa: E402
from spark_application import (  # noqa: E402
    SparkApplication,
    client_jar,
    local_settings,
    shuffle_settings,
)


class Machine:
    """Busy seconds of all processors, to see what else ran."""

    @staticmethod
    def busy_seconds() -> float:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def process_cpu_seconds(pid: int) -> float:
    """From the kernel, not from /metrics: the figure must not hang on what is measured."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_job(name: str, settings: dict, options, folder: Path, watch=None) -> tuple:
    every = {**local_settings(options.cores, options.driver_memory), **settings}
    application = SparkApplication(name, every, HERE / "jobs.py", folder)
    try:
        application.run("repartition", options.timeout, rows=1000)  # the JVM is up
        started = time.monotonic()
        arguments = {"rows": options.rows, "partitions": options.partitions}
        function = "repartition_text" if options.text_payload else "repartition"
        answer = application.run(function, options.timeout, watch, **arguments)
        seconds = time.monotonic() - started
        application.stop()
    finally:
        application.kill()
    return answer["fingerprint"], seconds


def measure(options, folder: Path) -> dict:
    settings = {
        "bind_address": "127.0.0.1",
        "advertise_host": "127.0.0.1",
        "grpc_port": 0,
        "http_port": 0,
        "memory_store.capacity": options.capacity_gib << 30,
    }
    daemon = Daemon(Path(options.daemon), folder, settings, ROOT / "config" / "dovetail.toml")
    try:
        daemon.wait_ready()
        peaks = {"resident": 0.0, "used": 0.0}

        def watch() -> None:
            metrics = daemon.metrics()
            peaks["resident"] = max(
                peaks["resident"], metrics.gauge("process_resident_memory_bytes")
            )
            peaks["used"] = max(peaks["used"], metrics.gauge("dovetail_memory_used_bytes"))

        before, machine = daemon.metrics(), Machine.busy_seconds()
        cpu, started = process_cpu_seconds(daemon.process.pid), time.monotonic()
        client = shuffle_settings(client_jar(options.client_jar_version), daemon.grpc)
        fingerprint, seconds = run_job("measure", client, options, folder, watch)
        left = daemon.wait_idle(60)
        after = daemon.metrics()
        received = after.counter("dovetail_received_bytes_total") - before.counter(
            "dovetail_received_bytes_total"
        )
        read = after.counter("dovetail_read_bytes_total") - before.counter(
            "dovetail_read_bytes_total"
        )
        blocks = after.counter("dovetail_received_blocks_total") - before.counter(
            "dovetail_received_blocks_total"
        )
        server_cpu = process_cpu_seconds(daemon.process.pid) - cpu
        print(f"rows                  {options.rows:,} into {options.partitions} partitions")
        print(f"fingerprint           {fingerprint}")
        print(f"job                   {seconds:.1f} s")
        print(f"application until idle {time.monotonic() - started:.1f} s, JVM start included")
        print(
            f"server CPU            {server_cpu:.2f} s ({server_cpu / received * 1e9:.2f} s per GB)"
        )
        print(f"machine CPU           {Machine.busy_seconds() - machine:.1f} s in all processes")
        print(f"bytes in              {received / 1e9:.3f} GB in {blocks:,.0f} blocks")
        print(f"bytes out             {read / 1e9:.3f} GB")
        print(f"block data at most    {peaks['used'] / 1e9:.3f} GB of {options.capacity_gib} GiB")
        print(f"resident at most      {peaks['resident'] / 1e9:.3f} GB")
        print(f"left over             {left or 'nothing'}")
        return fingerprint
    finally:
        code = daemon.stop()
        print(f"daemon's exit code    {code}", flush=True)
        if code != 0:
            print(daemon.log_tail())


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures one large shuffle through dovetaild.")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--partitions", type=int, default=32)
    parser.add_argument("--capacity-gib", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--driver-memory", default="4g")
    parser.add_argument("--client-jar-version", default="0.9.2")
    parser.add_argument("--timeout", type=float, default=1800.0)
    parser.add_argument("--text-payload", action="store_true", help="rows of hex text")
    parser.add_argument("--plain", action="store_true", help="also with Spark's own shuffle")
    parser.add_argument("--daemon", default=str(ROOT / "build" / "release" / "bin" / "dovetaild"))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="dovetail-measure-"))
    fingerprint = measure(options, folder)
    right = True
    if options.plain:
        kryo = {"spark.serializer": "org.apache.spark.serializer.KryoSerializer"}
        expected, seconds = run_job("plain", kryo, options, folder)
        right = fingerprint == expected
        print(
            f"Spark's own shuffle   {seconds:.1f} s, the result is"
            f" {'the same' if right else 'DIFFERENT'}"
        )
    shutil.rmtree(folder, ignore_errors=True)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
