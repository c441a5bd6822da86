"""The quickstart after set-up and build: daemon, job, report. Called by deploy/quickstart only."""

import argparse
import os
import shlex
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from daemon import Daemon, DaemonError, Metrics, port_is_free  # noqa: E402
from rows import ROW_BYTES, ROW_PAYLOAD_BYTES  # noqa: E402
from spark_application import (  # noqa: E402
    PYTHON,
    ROOT,
    SPARK_SUBMIT,
    SparkApplication,
    SparkError,
    client_jar,
    local_settings,
    shuffle_settings,
)

CLIENT_VERSION = "0.9.2"
PARTITIONS = 32
# Little on purpose: most of the shuffle has to go through files.
MEMORY_CAPACITY = "256M"
DEFAULT_PORTS = {"grpc_port": 19999, "http_port": 20010}
JOB = ROOT / "deploy" / "lib" / "selfcheck_job.py"


class Failed(Exception):
    """The quickstart cannot say that all is well; the text says why."""


def say(text: str) -> None:
    print(f"== {text}", flush=True)


def megabytes(count: float) -> str:
    return f"{count / 1e6:,.1f} MB"


def rate(count: float, seconds: float) -> str:
    return f"{count / 1e6 / seconds:,.0f} MB/s" if seconds > 0 else "too quick to say"


def start_daemon(folder: Path) -> Daemon:
    data_path = folder / "data"
    data_path.mkdir()
    settings = {
        "bind_address": "127.0.0.1",
        "advertise_host": "127.0.0.1",
        "memory_store.capacity": f'"{MEMORY_CAPACITY}"',
        "localfile_store.data_paths": f'["{data_path}"]',
    }
    for key, port in DEFAULT_PORTS.items():
        if not port_is_free(port):
            say(f"port {port} ({key}) is taken on this machine: taking a free one")
            settings[key] = 0
    return Daemon(
        ROOT / "build" / "release" / "bin" / "dovetaild",
        folder,
        settings,
        config=ROOT / "config" / "dovetail.toml",
    )


def check_room(metrics: Metrics, rows: int, folder: Path) -> None:
    """What does not fit is said now, not in the middle of the job."""
    free = metrics.gauge("dovetail_disk_free_bytes") or shutil.disk_usage(folder).free
    needed = rows * ROW_BYTES * 1.02
    # The daemon leaves the last part of a file system alone (localfile_store.disk_high_watermark).
    if needed * 1.1 > free:
        raise Failed(
            f"{rows:,} rows need about {megabytes(needed)} on disk, and {folder} has"
            f" {megabytes(free)} free. Take fewer --rows, or set TMPDIR to a folder with more room"
        )


class Watch:
    """Highest memory of the daemon while the job runs."""

    def __init__(self, daemon: Daemon):
        self.daemon = daemon
        self.resident = 0.0
        self.used = 0.0
        self.next = 0.0

    def __call__(self) -> None:
        if time.monotonic() < self.next:
            return
        self.next = time.monotonic() + 0.2
        metrics = self.daemon.metrics()
        self.resident = max(self.resident, metrics.gauge("process_resident_memory_bytes"))
        self.used = max(self.used, metrics.gauge("dovetail_memory_used_bytes"))


def check(result: dict, rows: int, moved: dict, left: dict) -> None:
    if result["got"] != result["expected"]:
        raise Failed(
            f"the result is wrong: shuffled {result['got']}, without a shuffle {result['expected']}"
        )
    if result["got"]["rows"] != rows or result["got"]["sum_id"] != rows * (rows - 1) // 2:
        raise Failed(f"the result is wrong: {result['got']} for {rows} rows")
    moved_through = {
        "received": moved["received_bytes"],
        "read": moved["memory_bytes"] + moved["file_bytes"],
    }
    for name, count in moved_through.items():
        if count < rows * ROW_PAYLOAD_BYTES:
            raise Failed(
                "the result is right, but the rows did not go through the daemon:"
                f" dovetail_{name}_bytes_total moved by {count:,.0f}, and"
                f" {rows * ROW_PAYLOAD_BYTES:,} bytes were shuffled"
            )
    if left:
        raise Failed(f"the daemon did not become idle after the job; still in use: {left}")


def difference(before: Metrics, after: Metrics) -> dict:
    names = {
        "received_bytes": ("dovetail_received_bytes_total", {}),
        "received_blocks": ("dovetail_received_blocks_total", {}),
        "memory_bytes": ("dovetail_read_bytes_total", {"tier": "memory"}),
        "file_bytes": ("dovetail_read_bytes_total", {"tier": "file"}),
        "flushed_bytes": ("dovetail_flushed_bytes_total", {}),
        "groups": ("dovetail_disk_groups_total", {}),
        "cpu_seconds": ("process_cpu_seconds_total", {}),
    }
    return {
        key: after.counter(name, **labels) - before.counter(name, **labels)
        for key, (name, labels) in names.items()
    }


def report(
    daemon: Daemon, metrics: Metrics, result: dict, moved: dict, watch: Watch, serve: bool
) -> None:
    gigabytes = moved["received_bytes"] / 1e9
    version = metrics.labels("dovetail_build_info").get("version", "unknown")
    got = result["got"]
    lines = [
        (
            "result",
            (
                f"right: {got['rows']:,} rows, sum of ids {got['sum_id']:,}, xor of row hashes"
                f" {got['xor_hash']:,}"
            ),
        ),
        ("", "(the same three as without a shuffle)"),
        (
            "job",
            (
                f"Spark 3.5.3, client {CLIENT_VERSION} over gRPC, local[2], {PARTITIONS}"
                f" partitions, {result['seconds']:.1f} s"
            ),
        ),
        (
            "bytes in",
            (
                f"{megabytes(moved['received_bytes'])} in {moved['received_blocks']:,.0f} blocks, "
                f"{rate(moved['received_bytes'], result['write_seconds'])} "
                f"(Spark's map stage: {result['write_seconds']:.1f} s)"
            ),
        ),
        (
            "bytes out",
            (
                f"{rate(moved['memory_bytes'] + moved['file_bytes'], result['read_seconds'])}"
                f" (Spark's reduce stage: {result['read_seconds']:.1f} s): from memory"
                f" {megabytes(moved['memory_bytes'])}, from files {megabytes(moved['file_bytes'])}"
            ),
        ),
        (
            "to disk",
            (
                f"{megabytes(moved['flushed_bytes'])} in {moved['groups']:,.0f} groups of many"
                " partitions each"
            ),
        ),
        (
            "server CPU",
            (
                f"{moved['cpu_seconds']:.2f} s from the job's start until idle, "
                f"{moved['cpu_seconds'] / gigabytes:.2f} s per GB shuffled"
            ),
        ),
        (
            "server memory",
            (
                f"{megabytes(watch.used)} of block data at most, budget"
                f" {megabytes(metrics.gauge('dovetail_memory_capacity_bytes'))}; process"
                f" {megabytes(watch.resident)}"
            ),
        ),
        ("left over", "nothing: every gauge of use is 0 again, every file is gone"),
        ("daemon", f"dovetaild {version}, config/dovetail.toml"),
        ("metrics", f"{daemon.http}/metrics{'' if serve else ' (while it runs: --serve)'}"),
    ]
    print("\nDovetail quickstart")
    for name, text in lines:
        print(f"  {name:<14} {text}")
    print(flush=True)


def print_settings(daemon: Daemon) -> None:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        **shuffle_settings(client_jar(CLIENT_VERSION), daemon.grpc),
    }
    print(
        "Settings for your own jobs on this machine, here with the quickstart's job (put yours in"
        " the last line):\n"
    )
    print(f"{environment_prefix()}{shlex.quote(str(SPARK_SUBMIT))} \\")
    for key, value in settings.items():
        print(f"  --conf {shlex.quote(f'{key}={value}')} \\")
    print(f"  {shlex.quote(str(JOB))} --rows 1000000\n", flush=True)


def environment_prefix() -> str:
    """Variables that spark-submit needs to find the Python and the Java that the set-up chose."""
    variables = {"PYSPARK_PYTHON": str(PYTHON), "JAVA_HOME": os.environ.get("JAVA_HOME", "")}
    return "".join(f"{name}={shlex.quote(value)} " for name, value in variables.items() if value)


def serve_until_stopped(daemon: Daemon) -> None:
    say(
        f"dovetaild keeps running: coordinator and shuffle server {daemon.grpc},"
        f" {daemon.http}/metrics. Ctrl-C stops it."
    )
    while daemon.running():
        time.sleep(0.2)
    raise Failed(f"dovetaild ended by itself with exit code {daemon.process.returncode}")


def run(options, folder: Path, started: list) -> None:
    say(f"starting dovetaild with config/dovetail.toml in {folder}")
    daemon = start_daemon(folder)
    started.append(daemon)
    daemon.wait_ready()
    before = daemon.metrics()
    check_room(before, options.rows, folder)
    say(
        f"running the Spark job: {options.rows:,} rows of about 250 bytes into {PARTITIONS}"
        " partitions"
    )
    settings = {**local_settings(), **shuffle_settings(client_jar(CLIENT_VERSION), daemon.grpc)}
    application = SparkApplication("quickstart", settings, JOB, folder)
    started.append(application)
    watch = Watch(daemon)
    timeout = 300 + options.rows / 20_000
    result = application.run(
        "selfcheck", timeout=timeout, watch=watch, rows=options.rows, partitions=PARTITIONS
    )
    application.stop()
    left = daemon.wait_idle()
    after = daemon.metrics()
    moved = difference(before, after)
    check(result, options.rows, moved, left)
    report(daemon, after, result, moved, watch, options.serve)
    if options.serve:
        print_settings(daemon)
        try:
            serve_until_stopped(daemon)
        except KeyboardInterrupt:
            print()
    code = daemon.stop()
    if code != 0:
        raise Failed(f"dovetaild ended with exit code {code} when it was told to stop")


def show_logs(started: list) -> None:
    for part in started:
        if isinstance(part, SparkApplication):
            print(
                f"\n-- warnings and errors of {part.log_path}\n{part.relevant_log(20)}",
                file=sys.stderr,
            )
        else:
            print(f"\n-- last lines of {part.log_path}\n{part.log_tail(20)}", file=sys.stderr)


def interrupt(*_) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    # SIGTERM takes the same way out as Ctrl-C: what was started is stopped.
    signal.signal(signal.SIGTERM, interrupt)
    folder = Path(tempfile.mkdtemp(prefix="dovetail-quickstart-"))
    started = []
    code = 1
    try:
        run(options, folder, started)
        code = 0
    except (Failed, DaemonError, SparkError) as error:
        show_logs(started)
        print(f"\nquickstart: {error}\n  The logs are in {folder}", file=sys.stderr)
    except KeyboardInterrupt:
        code = 130
        print("\nquickstart: stopped", file=sys.stderr)
    finally:
        for part in reversed(started):
            part.kill() if isinstance(part, SparkApplication) else part.stop()
        if code != 1 and not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
        elif options.keep:
            say(f"the logs are kept in {folder}")
    return code


if __name__ == "__main__":
    sys.exit(main())
