"""What Kafka Streams calls streams and tables, as DataFrames of Spark.

docs/streams.md has the names of both. Importing this package does not import pyspark; its
functions do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledgerstone.pipeline.streams.frames import Topic, as_records, kstream, ktable, to_topic

__all__ = ["Topic", "as_records", "kstream", "ktable", "to_topic"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from ledgerstone.pipeline.streams import frames

        return getattr(frames, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
