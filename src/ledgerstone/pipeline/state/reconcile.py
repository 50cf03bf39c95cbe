"""`reconcile`: rows whose delete was missed go, and nothing else is touched. Shell.

A tombstone that was removed from the log before the table had read it leaves a row that the topic
does not have any more. The topic's keys tell which: a key that is live there is read on anyway.
"""

import pyarrow as pa
from pyspark.sql import SparkSession

from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.layout import DELETED, layout_of
from ledgerstone.pipeline.reading import collected, latest_changes
from ledgerstone.pipeline.state.comparing import Comparison, compare
from ledgerstone.pipeline.state.expiry import check_nothing_expires
from ledgerstone.pipeline.tables.target import TableTarget
from ledgerstone.system import SystemClock


def reconcile(spark: SparkSession, pipeline: Pipeline, target: TableTarget) -> Comparison:
    layout = layout_of(pipeline)
    positions = target.positions()
    rows = pa.concat_tables([layout.table_schema.empty_table(), *target.rows()])
    latest = collected(latest_changes(spark, pipeline), pipeline)
    found = compare(latest, rows, positions, layout, now_ms=SystemClock().now_ms())
    deletes = found.repairs.filter(found.repairs.column(DELETED))
    if deletes.num_rows:
        check_nothing_expires(pipeline.source)
        target.repair(deletes)
    return found
