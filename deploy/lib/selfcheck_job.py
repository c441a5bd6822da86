"""The quickstart's job: shuffles rows and compares them with the same rows made without a shuffle.

Also a program of its own for spark-submit: selfcheck_job.py [--rows N]. Its exit code is 0 when the
result is right.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from rows import fingerprint_of, fingerprint_without_shuffle, make_rows, sums  # noqa: E402

MAP_TASKS = 8
held = []


def selfcheck(spark, rows: int, partitions: int) -> dict:
    threads = spark.sparkContext.defaultParallelism
    expected = fingerprint_without_shuffle(spark, rows, threads)
    first_stage = len(stages(spark))
    started = time.monotonic()
    shuffled = sums(make_rows(spark, 0, rows, MAP_TASKS).repartition(partitions, "key"))
    # Held until the end: released clients that have no shuffle left do not take leave of the
    # servers, which then keep the application until it has been silent for long enough.
    held.append(shuffled)
    got = fingerprint_of(shuffled)
    seconds = time.monotonic() - started
    own_stages = stages(spark)[first_stage:]
    return {
        "expected": expected,
        "got": got,
        "seconds": seconds,
        "write_seconds": stage_seconds(
            max(own_stages, key=lambda stage: stage.shuffleWriteBytes())
        ),
        "read_seconds": stage_seconds(max(own_stages, key=lambda stage: stage.shuffleReadBytes())),
    }


def stages(spark) -> list:
    """What Spark's status store knows of all stages so far, by stage id."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    listed = []
    while True:
        info = context.statusTracker().getStageInfo(len(listed))
        if info.isEmpty():
            return listed
        listed.append(context.statusStore().lastStageAttempt(len(listed)))


def stage_seconds(stage) -> float:
    if stage.submissionTime().isEmpty() or stage.completionTime().isEmpty():
        return 0.0
    return (stage.completionTime().get().getTime() - stage.submissionTime().get().getTime()) / 1000


def main() -> int:
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(
        description="Shuffles rows and compares them with rows that were not shuffled."
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=32)
    options = parser.parse_args()
    spark = SparkSession.builder.appName("dovetail-selfcheck").getOrCreate()
    result = selfcheck(spark, options.rows, options.partitions)
    spark.stop()
    right = result["got"] == result["expected"]
    print(
        f"{'right' if right else 'WRONG'}: shuffled {result['got']}, without a shuffle"
        f" {result['expected']}"
    )
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
