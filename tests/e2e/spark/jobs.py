"""The real jobs, as functions run inside a Spark application (deploy/lib/spark_worker.py).

Each is run once with Spark's own shuffle and once or more through the daemon. It returns
  fingerprint  what must be equal in both, and
  facts        what a job has to show besides (a plan, skipped stages), checked by checks.py.
Rows come from deploy/lib/rows.py: the same ids give the same incompressible bytes everywhere.
"""

import gc
import hashlib
import sys
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "deploy" / "lib"))
from pyspark.sql import DataFrame  # noqa: E402
from pyspark.sql import functions as F  # noqa: E402
from rows import fingerprint, fingerprint_of, hash_of_row, make_rows, sums  # noqa: E402

MAP_TASKS = 8


@contextmanager
def settings(spark, **values):
    """Sets spark.sql settings ("." written as "__") for one job."""
    names = {name.replace("__", "."): value for name, value in values.items()}
    before = {name: spark.conf.get(f"spark.sql.{name}", None) for name in names}
    for name, value in names.items():
        spark.conf.set(f"spark.sql.{name}", value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(f"spark.sql.{name}")
            else:
                spark.conf.set(f"spark.sql.{name}", value)


def collect_garbage(spark) -> None:
    """Spark unregisters a shuffle when nothing in the driver refers to it any more."""
    gc.collect()
    spark.sparkContext._jvm.System.gc()


def hold_shuffle(spark, rows: int) -> dict:
    """A shuffle that lives as long as the application."""
    summed = sums(make_rows(spark, 0, rows, 2).repartition(4, "key"))
    hold_shuffle.held = summed
    return {"fingerprint": fingerprint_of(summed), "facts": {}}


def repartition(spark, rows: int, first: int = 0, partitions: int = 32) -> dict:
    frame = make_rows(spark, first, first + rows, MAP_TASKS).repartition(partitions, "key")
    return {"fingerprint": fingerprint(frame), "facts": {}}


def repartition_text(spark, rows: int, partitions: int) -> dict:
    """For measure.py: about 250 bytes a row too, but hex text, as a first try often has it."""
    digest = F.sha2(F.col("id").cast("string"), 256)
    source = spark.range(0, rows, 1, MAP_TASKS).select("id", digest.alias("key"))
    value = F.concat(F.sha2("key", 512), F.substring("key", 1, 22))
    frame = source.withColumn("value", value).repartition(partitions, "key")
    return {"fingerprint": fingerprint(frame), "facts": {}}


def total_sort(spark, rows: int) -> dict:
    """The order itself is compared: the ids, in the order of partitions and rows."""
    ordered = make_rows(spark, 0, rows, MAP_TASKS).orderBy("key", "id")
    pieces = (
        ordered.groupBy(F.spark_partition_id().alias("piece"))
        .agg(F.collect_list("id").alias("ids"), F.bit_xor(hash_of_row(ordered)).alias("xor_hash"))
        .collect()
    )
    order = hashlib.sha256()
    count, xor_hash = 0, 0
    for piece in sorted(pieces, key=lambda row: row["piece"]):
        order.update(b"".join(number.to_bytes(8, "big") for number in piece["ids"]))
        count += len(piece["ids"])
        xor_hash ^= piece["xor_hash"]
    facts = {"partitions": len(pieces)}
    return {
        "fingerprint": {"rows": count, "order": order.hexdigest(), "xor_hash": xor_hash},
        "facts": facts,
    }


def group_by(spark, rows: int, groups: int, partitions: int) -> dict:
    """Every row is a group's first or second; the value stays in the groups, so it has to cross."""
    with settings(spark, shuffle__partitions=str(partitions), adaptive__enabled="false"):
        source = make_rows(spark, 0, rows, MAP_TASKS)
        grouped = source.groupBy((F.col("id") % groups).alias("group")).agg(
            F.count(F.lit(1)).alias("members"),
            F.sum("id").alias("id"),
            F.max("value").alias("value"),
            F.min("key").alias("key"),
        )
        # Every partition is still read by itself, but its sums need no task and no block each.
        return {"fingerprint": fingerprint(grouped.coalesce(16)), "facts": {}}


def skew_join(spark, rows: int) -> dict:
    """Most rows have one join key, so that adaptive execution reads that partition in several map
    ranges."""
    with settings(
        spark,
        adaptive__enabled="true",
        adaptive__skewJoin__enabled="true",
        adaptive__skewJoin__skewedPartitionFactor="2",
        adaptive__skewJoin__skewedPartitionThresholdInBytes=str(1 << 20),
        adaptive__advisoryPartitionSizeInBytes=str(1 << 20),
        autoBroadcastJoinThreshold="-1",
        shuffle__partitions="8",
    ):
        hot = F.when(F.col("id") % 10 < 7, F.lit(0)).otherwise(F.col("id") % 1000)
        left = make_rows(spark, 0, rows, MAP_TASKS).withColumn("join_key", hot)
        right = make_rows(spark, 0, 1000, 2).select(
            F.col("id").alias("join_key"), F.col("value").alias("right_value")
        )
        joined = left.join(right, "join_key").agg(
            F.count(F.lit(1)).alias("rows"),
            F.sum("id").alias("sum_id"),
            F.bit_xor(F.xxhash64("id", "key", "value", "join_key", "right_value")).alias(
                "xor_hash"
            ),
        )
        row = joined.collect()[0]
        plan = joined._jdf.queryExecution().executedPlan().toString()
        facts = {
            "plan_is_final": "isFinalPlan=true" in plan,
            "plan_has_skew": "skew=true" in plan,
            "plan": plan,
        }
        return {"fingerprint": row.asDict(), "facts": facts}


def empty_partitions(spark, rows: int, partitions: int) -> dict:
    """Rows of three keys only, in many partitions; then a shuffle without any row."""
    with settings(spark, adaptive__enabled="false"):
        source = make_rows(spark, 0, rows, MAP_TASKS).withColumn("color", F.col("id") % 3)
        spread = source.repartition(partitions, "color")
        counts = spread.groupBy(F.spark_partition_id().alias("piece")).agg(
            F.count(F.lit(1)).alias("rows"), F.bit_xor(hash_of_row(spread)).alias("xor_hash")
        )
        filled = sorted([row["piece"], row["rows"], row["xor_hash"]] for row in counts.collect())
        # The condition holds for no row, which Spark cannot know before it has looked.
        none = source.where(F.length("key") + F.col("id") < 0).repartition(partitions, "key")
        facts = {"filled": len(filled)}
        return {"fingerprint": {"filled": filled, "none": fingerprint(none)}, "facts": facts}


def giant_record(spark, record_bytes: int) -> dict:
    """One record that is larger than every buffer of the client, between small ones."""
    longs = record_bytes // 8
    with settings(spark, adaptive__enabled="false"):
        length = F.when(F.col("id") == 3, F.lit(longs)).otherwise(F.lit(4)).cast("long")
        # A fixed number of maps: the lambda is evaluated once a number, so one record is one array.
        source = spark.range(0, 8, 1, 4).select(
            "id",
            F.transform(
                F.sequence(F.lit(1).cast("long"), length), lambda n: F.xxhash64(n, F.col("id"))
            ).alias("value"),
        )
        moved = source.repartition(4, "id")
        summary = moved.select(
            "id", F.size("value").alias("longs"), F.xxhash64("id", "value").alias("hash")
        )
        found = sorted([row["id"], row["longs"], row["hash"]] for row in summary.collect())
        return {
            "fingerprint": {"records": found},
            "facts": {"largest_bytes": max(row[1] for row in found) * 8},
        }


def shared_shuffle(spark, rows: int, part: str) -> dict:
    """One shuffle read by three Spark jobs: parts "write", "again" and "last", in this order.

    The shuffle stays between the calls, so that the counters can be read between them.
    """
    with settings(spark, adaptive__enabled="false"):
        if part == "write":
            frame = make_rows(spark, 0, rows, MAP_TASKS).repartition(16, "key")
            # The executed plan's RDD, kept: a new DataFrame over it has the same shuffle
            # dependency.
            shared_shuffle.rdd = frame._jdf.queryExecution().toRdd()
            shared_shuffle.schema = frame._jdf.schema()
            return shared_fingerprint(spark)
        if part == "again":
            count = shared_shuffle.rdd.count()
            return {"fingerprint": {"rows": count}, "facts": skipped_stages(spark)}
        result = shared_fingerprint(spark)
        del shared_shuffle.rdd, shared_shuffle.schema
        return result


def shared_fingerprint(spark) -> dict:
    java_frame = spark._jsparkSession.internalCreateDataFrame(
        shared_shuffle.rdd, shared_shuffle.schema, False
    )
    return {
        "fingerprint": fingerprint(DataFrame(java_frame, spark)),
        "facts": skipped_stages(spark),
    }


def skipped_stages(spark) -> dict:
    """Of the last Spark job: stages skipped as their output was still there, and stages run."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    jobs = context.statusStore().jobsList(None)
    last = max((jobs.apply(n) for n in range(jobs.size())), key=lambda job: job.jobId())
    return {"stages_skipped": last.numSkippedStages(), "stages_run": last.numCompletedStages()}
