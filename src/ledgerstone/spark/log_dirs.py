"""`path=`: reads log directories without a broker, for restores and bulk work. Shell.

It never writes. A running broker's directory can be read, but the read fails if the cleaner
replaces a file meanwhile. A directory that a crash left in the middle of a swap is refused.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.errors import ConfigError
from ledgerstone.spark.errors import HOW_TO_GO_ON, DataLoss
from ledgerstone.spark.filters import Pruning
from ledgerstone.spark.log_files import PartitionFiles
from ledgerstone.spark.offsets import EARLIEST, LATEST
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import (
    Position,
    ReadOptions,
    Topics,
)
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.tasks import rows_of
from ledgerstone.spark.worker import settle
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.filenames import (
    LOG_START_OFFSET_CHECKPOINT,
    DirState,
    parse_partition_dir,
)
from ledgerstone.system import ReadOnlyFilesystem
from ledgerstone.types import INT64_MAX, TopicPartition

logger = logging.getLogger(__name__)


class DirectoryTask(InputPartition):
    def __init__(self, directory: str, wanted: OffsetRange) -> None:
        super().__init__(None)
        self.directory = directory
        self.wanted = wanted


class LogDirReader(DataSourceReader):
    def __init__(self, options: ReadOptions, shape: Projection) -> None:
        self.options = options
        self.shape = shape
        for name, position in (("starting", options.starting), ("ending", options.ending)):
            if position.timestamp_ms is not None or position.timestamps is not None:
                raise ConfigError(f"{name}Timestamp", "", "directories are read by offset")

    def partitions(self) -> list[InputPartition]:
        found: dict[TopicPartition, Path] = {}
        for path in self.options.paths:
            for partition, directory in partition_dirs(Path(path)):
                if _is_wanted(self.options.topics, partition):
                    other = found.setdefault(partition, directory)
                    if other != directory:
                        # Replicas of two brokers: each record would come twice.
                        reason = f"{partition} is in {other} and in {directory}; give one of them"
                        raise ConfigError("path", ",".join(self.options.paths), reason)
        return [
            DirectoryTask(str(directory), self._range(directory, partition))
            for partition, directory in sorted(found.items())
        ]

    def _range(self, directory: Path, partition: TopicPartition) -> OffsetRange:
        asked = _offset_in(self.options.starting, partition, EARLIEST)
        end = _offset_in(self.options.ending, partition, LATEST)
        start = max(_log_start(directory, partition), PartitionFiles(directory).start_offset)
        if asked is not None and asked < start:
            self._lose(f"{partition} is asked for from {asked} on, and the files begin at {start}")
        return OffsetRange(partition, max(asked or 0, start), INT64_MAX if end is None else end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        settle()
        if not isinstance(partition, DirectoryTask):
            return
        rows = self.options.rows
        files = PartitionFiles(Path(partition.directory))
        end = files.end_offset(committed=rows.isolation is IsolationLevel.READ_COMMITTED)
        asked = partition.wanted
        if end < asked.end_offset < INT64_MAX:
            said = f"{asked.partition} is asked for up to {asked.end_offset}"
            self._lose(f"{said}, and the files end at {end}")
        wanted = asked._replace(end_offset=min(asked.end_offset, end))
        if wanted.size > 0:
            yield from rows_of(files.windows_from, wanted, rows, Pruning(), self.shape)

    def _lose(self, message: str) -> None:
        if self.options.rows.fail_on_data_loss:
            raise DataLoss(f"{message}; {HOW_TO_GO_ON}")
        logger.warning("data loss: %s", message)


_IN_A_LOG_DIR: Final = "a partition's directory, or one that holds such directories"


def partition_dirs(path: Path) -> Iterator[tuple[TopicPartition, Path]]:
    """The live partitions in a directory; it may be one itself."""
    if not path.is_dir():
        raise ConfigError("path", str(path), f"not a directory: {_IN_A_LOG_DIR}")
    own = parse_partition_dir(path.name)
    if own is not None and own.state is DirState.LIVE and any(path.glob("*.log")):
        yield own.topic_partition, path
        return
    found = False
    for child in sorted(path.iterdir()):
        parsed = parse_partition_dir(child.name)
        if parsed is not None and parsed.state is DirState.LIVE and child.is_dir():
            found = True
            yield parsed.topic_partition, child
    if not found:
        raise ConfigError("path", str(path), f"no partition is in it: {_IN_A_LOG_DIR}")


def _is_wanted(topics: Topics | None, partition: TopicPartition) -> bool:
    if topics is None:
        return True
    if topics.assign is not None:
        return partition in topics.assign
    if topics.pattern is not None:
        return re.fullmatch(topics.pattern, partition.topic) is not None
    return partition.topic in (topics.subscribe or ())


def _offset_in(position: Position, partition: TopicPartition, word: int) -> int | None:
    """None where no number is given."""
    if position.offsets is None or position.offsets.get(partition, word) == word:
        return None
    return position.offsets[partition]


def _log_start(directory: Path, partition: TopicPartition) -> int:
    """Records below it count as deleted, even if they are still in the files."""
    path = directory.parent / LOG_START_OFFSET_CHECKPOINT
    # A backup is often mounted so that nobody can write to it.
    return OffsetCheckpoint(ReadOnlyFilesystem(), str(path)).read().get(partition, 0)
