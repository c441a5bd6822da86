"""The Spark side of spark_application.py: spark_worker.py JOBS_FILE SETTINGS_JSON.

Makes one session, then runs one job per line of standard input and answers with one line of
standard output. Everything else that is printed, the JVM's output too, goes to standard error. End
of input stops the session.
"""

import importlib.util
import json
import os
import re
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

FRAME = re.compile(r"\s+(at .*\(.*\)|\.\.\. \d+ more)$")


def load(path: str):
    spec = importlib.util.spec_from_file_location("jobs", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer_to(spark, jobs, line: str) -> dict:
    try:
        request = json.loads(line)
        return {"result": getattr(jobs, request["job"])(spark, **request["arguments"])}
    except Exception:  # whatever a job throws is its result
        # What went wrong and what caused it, without the Java frames: Spark's log has them.
        lines = traceback.format_exc(limit=-2).splitlines()
        return {"error": "\n".join(line[:400] for line in lines if not FRAME.match(line))[:4000]}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

    jobs = load(sys.argv[1])
    settings = SparkConf().setAll(list(json.loads(sys.argv[2]).items()))
    spark = SparkSession.builder.config(conf=settings).getOrCreate()
    for line in sys.stdin:
        answers.write(json.dumps(answer_to(spark, jobs, line)) + "\n")
        answers.flush()
    spark.stop()


if __name__ == "__main__":
    main()
