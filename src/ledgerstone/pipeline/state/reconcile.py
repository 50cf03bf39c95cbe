"""`reconcile`: deletes rows whose tombstone was missed, and nothing else. Shell.

A tombstone that was removed before the table had read it leaves a row that the topic no longer has.
The topic's keys tell which: keys that are live there will be read anyway.
"""

from pyspark.sql import SparkSession

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.state.comparing import Comparison
from ledgerstone.pipeline.state.expiry import check_nothing_expires
from ledgerstone.pipeline.state.table_check import TableCheck
from ledgerstone.pipeline.tables.target import TableTarget


def reconcile(spark: SparkSession, pipeline: Pipeline, target: TableTarget) -> Comparison:
    check = TableCheck(spark, pipeline, target)
    found = check.total()
    if found.extra:
        check_nothing_expires(pipeline.source)
        check.repair(found, only_deletes=True)
    return found
