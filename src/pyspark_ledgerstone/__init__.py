"""Found by Spark because of its name: makes `format("ledgerstone")` known without registration.

Spark imports every top-level module called pyspark_* and takes its `DefaultSource`.
"""

from ledgerstone.spark.source import LedgerstoneSource as DefaultSource

__all__ = ["DefaultSource"]
