"""`format("ledgerstone")`: the data source that Spark finds by itself. Shell.

Spark makes one of these in each of several planner processes; all it has are the options. Names in
camelCase are dictated by Spark's data source API. Modules that a step does not need are imported
by the step that does: each planner process pays for its own imports.
"""

import sys
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from ledgerstone.errors import LedgerstoneError
from ledgerstone.spark.read_options import ReadOptions, Rows, read_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )

    from ledgerstone.spark.schema import Projection

_PUSHDOWN: Final = "pyspark.sql.worker.data_source_pushdown_filters"


class LedgerstoneSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ledgerstone"

    def schema(self) -> StructType:
        from ledgerstone.spark.options import Options
        from ledgerstone.spark.schema import schema_of

        options = Options(self.options)
        return schema_of(
            options.one_of("rows", Rows, Rows.RECORDS),
            include_headers=options.flag("includeHeaders", default=False),
        )

    def reader(self, schema: StructType) -> "DataSourceReader":
        options = read_options(self.options, streaming=False)
        shape = self._projection(schema, options)
        if options.paths:
            from ledgerstone.spark.log_dirs import LogDirReader

            return LogDirReader(options, shape)
        from ledgerstone.spark.batch_reader import BatchReader, PruningBatchReader

        # A reader that takes filters is an error in a session that gives none. Only the process
        # whose task it is to push filters has this module. And Spark keeps what it planned for as
        # long as the DataFrame lives, also for queries with other filters: so only if asked to.
        has_filters = _PUSHDOWN in sys.modules or _main_name() == _PUSHDOWN
        takes_filters = options.push_filters and has_filters
        return (PruningBatchReader if takes_filters else BatchReader)(options, shape)

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802
        from ledgerstone.spark.stream_reader import RefusedStream, StreamReader

        try:
            options = read_options(self.options, streaming=True)
            return StreamReader(options, self._projection(schema, options))
        except LedgerstoneError as error:
            # Raised here, it would be lost: Spark then fails over a reader it does not have.
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> "DataSourceWriter":
        from ledgerstone.spark.sink import BatchSink
        from ledgerstone.spark.write_options import write_options

        return BatchSink(write_options(self.options, overwrite=overwrite), schema)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> "DataSourceStreamWriter":
        from ledgerstone.spark.sink import StreamSink
        from ledgerstone.spark.write_options import write_options

        return StreamSink(write_options(self.options, overwrite=overwrite), schema)

    def _projection(self, schema: StructType, options: ReadOptions) -> "Projection":
        from ledgerstone.spark.schema import projection

        return projection(schema, options.rows.rows)


def _main_name() -> str | None:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return None if spec is None else spec.name
