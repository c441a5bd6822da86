"""The real jobs, and what each must have done to the daemon's counters and to Spark's plan."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "deploy" / "lib"))
from daemon import Metrics  # noqa: E402
from rows import ROW_PAYLOAD_BYTES  # noqa: E402

OLD_CLIENT = "0.9.1"
# What comes on top of the payload: row headers, the small exchange of the final sums, offset tables
# that LZ4 leaves.
OVERHEAD = 1.35
OVERHEAD_BYTES = 8 << 20


class Wrong(Exception):
    """A job did not do what it had to."""


@dataclass
class Step:
    """One call of a function of jobs.py. payload_bytes: incompressible bytes that cross the
    shuffle."""

    function: str
    arguments: dict
    payload_bytes: int
    writes: bool = True


@dataclass
class Highest:
    """The largest values of some gauges while a job ran."""

    values: dict = field(default_factory=dict)
    NAMES = ("dovetail_apps", "dovetail_partitions", "dovetail_memory_used_bytes")

    def sample(self, metrics: Metrics) -> None:
        for name in self.NAMES:
            self.values[name] = max(self.values.get(name, 0), metrics.gauge(name))


@dataclass
class Run:
    """What was seen of one step: metrics before and after, the job's facts, gauges meanwhile."""

    step: Step
    before: Metrics
    after: Metrics
    facts: dict
    highest: Highest

    def moved(self, name: str, **labels: str) -> float:
        return self.after.counter(name, **labels) - self.before.counter(name, **labels)


@dataclass
class Job:
    """One test. steps run in order in one application; `check(runs)` looks at what is special about
    the job."""

    name: str
    steps: list
    check: object = None
    client: str = ""  # empty: the version under test
    also: Step = None  # run at the same time in a second application


def require(condition: bool, text: str) -> None:
    if not condition:
        raise Wrong(text)


def check_bytes(run: Run, payload_bytes: int, files: bool) -> None:
    """The payload went in and came out, once: not less, and not much more."""
    received = run.moved("dovetail_received_bytes_total")
    read = run.moved("dovetail_read_bytes_total", tier="memory")
    if files:
        read += run.moved("dovetail_read_bytes_total", tier="file")
    most = payload_bytes * OVERHEAD + OVERHEAD_BYTES
    if run.step.writes:
        require(
            payload_bytes <= received <= most,
            f"dovetail_received_bytes_total moved by {received:,.0f}; the payload is"
            f" {payload_bytes:,} bytes",
        )
        require(
            run.moved("dovetail_received_blocks_total") > 0,
            "dovetail_received_blocks_total did not move",
        )
    require(
        payload_bytes <= read <= most,
        f"dovetail_read_bytes_total moved by {read:,.0f}; the payload is"
        f" {payload_bytes:,} bytes",
    )
    require(
        files or run.moved("dovetail_read_blocks_total", tier="memory") > 0,
        "dovetail_read_blocks_total did not move",
    )
    require(
        run.moved("dovetail_duplicate_blocks_total") == 0,
        "blocks came twice, and nothing was sent again",
    )


def check_group_by(runs: list) -> None:
    partitions = runs[0].step.arguments["partitions"]
    seen = runs[0].highest.values["dovetail_partitions"]
    require(
        seen >= partitions,
        f"the daemon held at most {seen:.0f} partitions at once, not {partitions}",
    )


def check_skew_join(runs: list) -> None:
    facts = runs[0].facts
    require(
        facts["plan_is_final"] and facts["plan_has_skew"],
        f"no skew split in the plan:\n{facts['plan']}",
    )
    require(
        runs[0].moved("dovetail_filtered_reads_total", tier="memory") > 0,
        'dovetail_filtered_reads_total{tier="memory"} did not move',
    )


def check_total_sort(runs: list) -> None:
    require(
        runs[0].facts["partitions"] > 1,
        "the sort came out in one partition: nothing was ordered across them",
    )


def check_empty_partitions(runs: list) -> None:
    partitions = runs[0].step.arguments["partitions"]
    require(
        0 < runs[0].facts["filled"] < partitions / 2,
        f"{runs[0].facts['filled']} partitions have rows",
    )
    # Every reduce task asks for its result, also where there is nothing; so does the shuffle
    # without rows.
    asked = runs[0].moved("dovetail_grpc_requests_total", method="getShuffleResult") + runs[
        0
    ].moved("dovetail_grpc_requests_total", method="getShuffleResultForMultiPart")
    require(
        asked >= 2 * partitions,
        f"only {asked:.0f} results were asked for in two shuffles of {partitions} partitions",
    )
    require(
        runs[0].moved("dovetail_registered_shuffles_total") >= 2,
        "fewer than two shuffles were registered",
    )


def check_giant_record(runs: list) -> None:
    record = runs[0].step.arguments["record_bytes"]
    require(
        runs[0].facts["largest_bytes"] == record,
        f"the largest record has {runs[0].facts['largest_bytes']} bytes",
    )
    held = runs[0].highest.values["dovetail_memory_used_bytes"]
    flushed = runs[0].moved("dovetail_flushed_bytes_total")
    require(
        max(held, flushed) >= record,
        f"the daemon held at most {held:,.0f} bytes at once and flushed {flushed:,.0f}",
    )


def check_shared_shuffle(runs: list) -> None:
    write, again, last = runs
    require(
        write.facts["stages_skipped"] == 0,
        "the first job skipped a stage: there was nothing to skip",
    )
    for run in (again, last):
        require(
            run.facts["stages_skipped"] == 1,
            f"{run.facts['stages_skipped']} map stages were skipped, not one",
        )
    received = again.moved("dovetail_received_bytes_total")
    require(received == 0, f"the second job wrote {received:,.0f} bytes again")
    received = last.moved("dovetail_received_bytes_total")
    require(
        received < 100_000,
        f"the third job wrote {received:,.0f} bytes; only its sums have to cross",
    )


def check_two_applications(runs: list) -> None:
    seen = runs[0].highest.values["dovetail_apps"]
    require(seen >= 2, f"the daemon had at most {seen:.0f} applications at once")


def jobs(scale: float) -> list:
    def step(function: str, rows: int, **arguments) -> Step:
        rows = int(rows * scale)
        return Step(function, {"rows": rows, **arguments}, rows * ROW_PAYLOAD_BYTES)

    repartition_rows = 400_000
    group_rows = int(200_000 * scale)
    groups = step("group_by", group_rows / scale, groups=group_rows // 2, partitions=2000)
    giant = Step("giant_record", {"record_bytes": 64 << 20}, 64 << 20)
    shared = [step("shared_shuffle", 200_000, part=part) for part in ("write", "again", "last")]
    shared[1].writes = shared[2].writes = False
    return [
        Job("repartition", [step("repartition", repartition_rows)]),
        Job("total_sort", [step("total_sort", 300_000)], check_total_sort),
        Job("group_by_2000_partitions", [groups], check_group_by),
        Job("skew_join", [step("skew_join", 200_000)], check_skew_join),
        Job(
            "empty_partitions",
            [step("empty_partitions", 50_000, partitions=64)],
            check_empty_partitions,
        ),
        Job("giant_record_64_mib", [giant], check_giant_record),
        Job("one_shuffle_read_by_two_jobs", shared, check_shared_shuffle),
        Job("old_client_0_9_1", [step("repartition", repartition_rows)], client=OLD_CLIENT),
        Job(
            "two_applications_at_once",
            [step("repartition", repartition_rows)],
            check_two_applications,
            also=step("repartition", repartition_rows, first=10_000_000),
        ),
    ]
