"""Runs a table's jobs on Spark's executors. Shell."""

from typing import Any

from ledgerstone.pipeline.tables.delta_buckets import (
    BucketFile,
    BucketJob,
    RunJobs,
    rewrite_bucket,
)


def on_executors(spark: Any) -> RunJobs:  # noqa: ANN401 - a SparkSession, which need not be there
    def run(jobs: list[BucketJob]) -> list[BucketFile]:
        if not jobs:
            return []
        found = spark.sparkContext.parallelize(jobs, len(jobs)).map(rewrite_bucket).collect()
        return [BucketFile(*each) for each in found]

    return run
