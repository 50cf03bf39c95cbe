"""`verify`: is the table what the topic says? And `--repair`: make it so. Shell.

The topic is folded anew by Spark, decoded as a run would, and held against every row.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import DELETED, layout_of
from ledgerstone.pipeline.reading import collected, latest_changes
from ledgerstone.pipeline.state.comparing import Comparison, compare
from ledgerstone.pipeline.state.expiry import check_nothing_expires
from ledgerstone.pipeline.tables.target import TableTarget
from ledgerstone.system import SystemClock


def verify(
    spark: SparkSession, pipeline: Pipeline, target: TableTarget, *, repair: bool = False
) -> Comparison:
    """The comparison as it was before the repair."""
    layout = layout_of(pipeline)
    if repair and layout.deletes is Deletes.HISTORY:
        raise PipelineError(
            "a history cannot be repaired from the latest records: versions in between are gone "
            "from them. Begin with an empty table while the topic has what you need"
        )
    # Positions first: what is applied while the topic is read is pending, not wrong.
    positions = target.positions()
    rows = pa.concat_tables([layout.table_schema.empty_table(), *target.rows()])
    latest = collected(latest_changes(spark, pipeline), pipeline)
    found = compare(latest, rows, positions, layout, now_ms=SystemClock().now_ms())
    if repair and not found.is_equal:
        if pc.any(found.repairs.column(DELETED)).as_py():
            check_nothing_expires(pipeline.source)
        target.repair(found.repairs)
    return found
