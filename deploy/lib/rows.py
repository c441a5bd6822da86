"""Rows for shuffles that check themselves.

Every column follows from the id alone, so that any application can make the same rows again, and
neither key nor value can be compressed.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

# Bytes of a row's columns that no compression can take away.
ROW_PAYLOAD_BYTES = 8 + 32 + 192
# The same row as Spark lays it out, about what the word "row" means to a user.
ROW_BYTES = 256
VALUE_HASHES = 24


def make_rows(spark: SparkSession, first: int, last: int, partitions: int) -> DataFrame:
    """Rows first..last-1: id, key (32 random-like bytes), value (192 random-like bytes)."""
    hashes = [F.xxhash64("id", F.lit(n)).cast("binary") for n in range(VALUE_HASHES)]
    return spark.range(first, last, 1, partitions).select(
        "id",
        F.unhex(F.sha2(F.col("id").cast("string"), 256)).alias("key"),
        F.concat(*hashes).alias("value"),
    )


def hash_of_row(frame: DataFrame):
    return F.xxhash64(*[F.col(name) for name in frame.columns])


def sums(frame: DataFrame) -> DataFrame:
    """Count, sum of ids, xor of row hashes: wrong, lost or doubled rows change one of them."""
    return frame.agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum("id").alias("sum_id"),
        F.bit_xor(hash_of_row(frame)).alias("xor_hash"),
    )


def fingerprint_of(summed: DataFrame) -> dict:
    row = summed.collect()[0]
    return {"rows": row["rows"], "sum_id": row["sum_id"] or 0, "xor_hash": row["xor_hash"] or 0}


def fingerprint(frame: DataFrame) -> dict:
    return fingerprint_of(sums(frame))


def fingerprint_without_shuffle(spark: SparkSession, rows: int, threads: int) -> dict:
    """The fingerprint of make_rows(0, rows), made of one-partition pieces, whose sums need no
    exchange at all."""
    from concurrent.futures import ThreadPoolExecutor

    bounds = [rows * n // threads for n in range(threads + 1)]
    with ThreadPoolExecutor(threads) as pool:
        pieces = list(
            pool.map(
                lambda n: fingerprint(make_rows(spark, bounds[n], bounds[n + 1], 1)), range(threads)
            )
        )
    total = {"rows": 0, "sum_id": 0, "xor_hash": 0}
    for piece in pieces:
        total["rows"] += piece["rows"]
        total["sum_id"] += piece["sum_id"]
        total["xor_hash"] ^= piece["xor_hash"]
    return total
