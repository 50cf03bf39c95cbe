"""A task over the wire: ranges of offsets, picklable, no connection. Pure.

Separate from the reading, because a planner makes tasks and does not need what makes rows.
"""

from pyspark.sql.datasource import InputPartition

from ledgerstone.spark.planning import OffsetRange


class RangeTask(InputPartition):
    def __init__(self, wanted: OffsetRange, topic_id: str | None = None) -> None:
        super().__init__(None)
        self.wanted = wanted
        self.topic_id = topic_id  # of the topic the offsets are of; None: nobody said

    def __repr__(self) -> str:
        return f"RangeTask({self.wanted})"


class SharedTask(InputPartition):
    """Small ranges, read one after the other."""

    def __init__(self, parts: list[RangeTask]) -> None:
        super().__init__(None)
        self.parts = parts

    def __repr__(self) -> str:
        return f"SharedTask({', '.join(str(part.wanted) for part in self.parts)})"
