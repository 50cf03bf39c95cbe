"""`reconcile`: rows whose delete was missed go, and nothing else is touched. Shell.

A tombstone that was removed from the log before the table had read it leaves a row that the topic
does not have any more. The topic's keys tell which: a key that is live there is read on anyway.
"""

from pyspark.sql import SparkSession

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.layout import DELETED
from ledgerstone.pipeline.state.comparing import Comparison
from ledgerstone.pipeline.state.expiry import check_nothing_expires
from ledgerstone.pipeline.state.table_check import TableCheck
from ledgerstone.pipeline.tables.target import TableTarget


def reconcile(spark: SparkSession, pipeline: Pipeline, target: TableTarget) -> Comparison:
    with TableCheck(spark, pipeline, target) as check:
        found = check.total()
        if found.extra:
            check_nothing_expires(pipeline.source)
            for repairs in check.repairs():
                deletes = repairs.filter(repairs.column(DELETED))
                if deletes.num_rows:
                    target.repair(deletes)
    return found
