"""`verify` checks that the table matches the topic; `--repair` corrects it. Shell.

Spark folds the topic again, decodes it as a run would, and compares it with every row.
"""

from pyspark.sql import SparkSession

from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.state.comparing import Comparison
from ledgerstone.pipeline.state.expiry import check_nothing_expires
from ledgerstone.pipeline.state.table_check import TableCheck
from ledgerstone.pipeline.tables.target import TableTarget


def verify(
    spark: SparkSession, pipeline: Pipeline, target: TableTarget, *, repair: bool = False
) -> Comparison:
    """The comparison as it was before the repair."""
    if repair and pipeline.target.deletes is Deletes.HISTORY:
        raise PipelineError(
            "a history cannot be repaired from the latest records: versions in between are gone "
            "from them. Begin with an empty table while the topic has what you need"
        )
    check = TableCheck(spark, pipeline, target)
    found = check.total()
    if repair and not found.is_equal:
        if found.extra:
            check_nothing_expires(pipeline.source)
        check.repair(found)
    return found
