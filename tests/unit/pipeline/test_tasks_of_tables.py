"""What comes back from tasks: counts, names and typed failures; never a row."""

import pickle
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import psycopg
import pyarrow as pa
import pytest

from ledgerstone.errors import NotLeaderOrFollower
from ledgerstone.pipeline.bad_records import BadRecord
from ledgerstone.pipeline.errors import PipelineError, RecordRefused
from ledgerstone.pipeline.executors import SparkExecutors
from ledgerstone.pipeline.read_task import ReadDone
from ledgerstone.pipeline.tables.group_merging import GroupDone
from ledgerstone.pipeline.tables.leaves import Incoming, LeafFile
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.postgres_copy import HEADER, TRAILER, copy_rows
from ledgerstone.pipeline.tables.postgres_staging import staged_tables
from ledgerstone.pipeline.tables.sql import staged_prefix
from ledgerstone.pipeline.tables.sqlite_files import FileDone
from ledgerstone.pipeline.tables.target import Staged
from ledgerstone.pipeline.task_failures import ReturnedFailures, TaskFailure, failure_from
from ledgerstone.spark.errors import DataLoss, TopicRecreated
from ledgerstone.spark.windows import CompactedMeanwhile
from tests.kit.table_model import Record, changes_of, table_rows, text_pipeline
from tests.kit.table_targets import TARGETS


class Context:
    """As much of a SparkContext as is used: runs jobs here, through pickles as Spark does."""

    defaultParallelism = 2  # noqa: N815 - Spark's name

    def __init__(self) -> None:
        self.returned_bytes = 0

    def parallelize(self, jobs: list[Any], parts: int) -> "Context":
        assert parts == len(jobs)
        self._jobs = pickle.loads(pickle.dumps(jobs))
        return self

    def map(self, work: Callable[[Any], Any]) -> "Context":
        self._work = work
        return self

    def collect(self) -> list[Any]:
        content = pickle.dumps([self._work(job) for job in self._jobs])
        self.returned_bytes += len(content)
        return list(pickle.loads(content))


class Session:
    def __init__(self) -> None:
        self.sparkContext = Context()


# What the driver may get from a task. No type of rows is among them, and lists of these are
# bounded: by files of the table, or by the few bad records that are named.
SMALL = (int, str, bool, Staged, LeafFile, BadRecord)


@pytest.mark.parametrize("kind", [ReadDone, GroupDone, FileDone, Staged, LeafFile, TaskFailure])
def test_answers_of_tasks_have_no_room_for_rows(kind: type) -> None:
    for name, said in get_type_hints(kind).items():
        inner = [each for each in getattr(said, "__args__", (said,)) if each is not ...]
        assert all(each in SMALL for each in inner), (kind, name, said)


def large_changes(pipeline: Any, count: int) -> pa.Table:
    records = [Record(0, at, b"k%d" % at, b"x" * 2000, at + 1) for at in range(count)]
    return changes_of(pipeline, records)


@pytest.mark.parametrize("target", ["sqlite", "parquet", "delta"])
def test_driver_gets_as_little_of_a_large_batch_as_of_a_small_one(
    target: str, tmp_path: Path
) -> None:
    def returned(count: int) -> int:
        session = Session()
        location = str(tmp_path / f"{target}-{count}")
        pipeline = text_pipeline(target, location, buckets=1)
        pipeline = type(pipeline)(
            **{
                name: getattr(pipeline, name)
                for name in pipeline.__dataclass_fields__
                if name != "work"
            },
            work=str(tmp_path / f"work-{target}-{count}"),
        )
        table = open_target(pipeline, spark=session)
        table.prepare()
        stage = table.stage(Incoming(1, 1))
        sink = stage.open()
        sink.add(large_changes(pipeline, count))
        applied = table.apply_staged(stage, [sink.finish()], {0: count})
        assert applied.upserts == count
        table.close()
        return session.sparkContext.returned_bytes

    small, large = returned(10), returned(2000)

    assert 0 < large < 2 * small < 4096


def fails(job: Exception) -> None:
    raise job


@pytest.mark.parametrize(
    ("raised", "kind", "retriable"),
    [
        (RecordRefused("t-0 offset 3: bad"), RecordRefused, False),
        (DataLoss("gone"), DataLoss, False),
        (TopicRecreated("again"), TopicRecreated, False),
        (CompactedMeanwhile("cleaned"), PipelineError, True),
        (NotLeaderOrFollower("moved"), PipelineError, True),
        (ValueError("a bug"), PipelineError, False),
        (ConnectionResetError("gone"), PipelineError, True),
    ],
)
def test_failure_of_a_task_comes_back_as_it_was_raised(
    raised: Exception, kind: type[Exception], retriable: bool
) -> None:
    told = pickle.loads(pickle.dumps(ReturnedFailures(work=fails)(raised)))

    assert isinstance(told, TaskFailure)
    assert (type(told.error()), told.retriable) == (kind, retriable)
    assert str(raised) in str(told.error())


class FailsAtFirst:
    attempts = 0

    def __call__(self, job: int) -> int:
        if job == 1 and FailsAtFirst.attempts < 2:
            FailsAtFirst.attempts += 1
            raise CompactedMeanwhile("the log was cleaned")
        return job * 10


def test_job_that_fails_for_a_while_is_repeated_alone_and_answers_stay_in_order() -> None:
    FailsAtFirst.attempts = 0
    executors = SparkExecutors(Session())

    assert executors.run(FailsAtFirst(), [0, 1, 2]) == [0, 10, 20]
    assert FailsAtFirst.attempts == 2


def test_job_that_fails_for_good_raises_its_error() -> None:
    executors = SparkExecutors(Session())

    with pytest.raises(DataLoss, match="offset 5"):
        executors.run(fails, [DataLoss("offset 5"), CompactedMeanwhile("cleaned")])
    assert failure_from(PipelineError("no cause")).retriable is False


# -- PostgreSQL -------------------------------------------------------------------------------


def test_binary_copy_says_to_postgres_what_arrow_holds(postgres: str) -> None:
    columns = {
        "t": (pa.array(["é", None, ""], pa.string()), "text"),
        "b": (pa.array([b"\0\xff", b"", None], pa.binary()), "bytea"),
        "i": (pa.array([1, None, -(2**31)], pa.int32()), "integer"),
        "l": (pa.array([2**63 - 1, -1, None], pa.int64()), "bigint"),
        "f": (pa.array([1.5, None, float("inf")], pa.float64()), "double precision"),
        "o": (pa.array([True, None, False], pa.bool_()), "boolean"),
        "d": (pa.array([0, None, -719162], pa.date32()), "date"),
        "s": (pa.array([0, None, -62 * 10**15], pa.timestamp("us", "UTC")), "timestamptz"),
        "n": (pa.array([Decimal("12.50"), None, Decimal("-0.01")], pa.decimal128(9, 2)), "text"),
        "z": (pa.array([1, 2, 3], pa.int64()), "bigint"),
    }  # fmt: skip
    table = pa.table({name: array for name, (array, _) in columns.items()})
    said = ", ".join(f"{name} {kind}" for name, (_, kind) in columns.items())
    with psycopg.connect(postgres) as db:
        db.execute(f"CREATE TEMPORARY TABLE copied ({said})".encode())
        with db.cursor().copy("COPY copied FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(HEADER)
            # A slice too: its buffers begin elsewhere.
            for piece in (table.slice(0, 1), table.slice(1, 2)):
                for content in copy_rows(piece):
                    copy.write(content)
            copy.write(TRAILER)
        found = db.execute("SELECT * FROM copied ORDER BY z").fetchall()

    expected = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    at = list(columns).index("n")
    assert found == [
        (*row[:at], None if row[at] is None else f"{row[at]:f}", *row[at + 1 :]) for row in expected
    ]


def staged(pipeline: Any, table: Any, *partitions: list[Record]) -> tuple[Any, list[Staged]]:
    stage = table.stage(Incoming(10, 1000))
    found = []
    for records in partitions:
        sink = stage.open()
        sink.add(changes_of(pipeline, records))
        found.append(sink.finish())
    return stage, found


@pytest.mark.parametrize("target", TARGETS)
def test_key_in_two_partitions_is_decided_by_time_and_counted_once(
    target: str, location: str
) -> None:
    pipeline = text_pipeline(target, location)
    table = open_target(pipeline)
    table.prepare()
    # A tombstone that is newer, one that is older, and the same key twice in one partition.
    stage, names = staged(
        pipeline,
        table,
        [Record(0, 5, b"a", b"old", 10), Record(0, 6, b"b", b"new", 30)],
        [
            Record(1, 1, b"a", None, 20),
            Record(1, 2, b"b", None, 20),
            Record(1, 3, b"c", b"first", 90),
            Record(1, 4, b"c", b"second", 80),
        ],
    )

    applied = table.apply_staged(stage, names, {0: 7, 1: 5})

    assert [row[:2] for row in table_rows(table.rows())] == [("b", "new"), ("c", "second")]
    assert (applied.upserts, applied.deletes) == (2, 1)
    table.close()


def test_staging_tables_are_dropped_with_their_batch_and_after_a_crash(postgres: str) -> None:
    pipeline = text_pipeline("postgres", postgres)
    table = open_target(pipeline)
    table.prepare()
    prefix = staged_prefix(pipeline.target.name)
    with psycopg.connect(postgres, autocommit=True) as db:
        stage, names = staged(pipeline, table, [Record(0, 0, b"a", b"v", 1)])
        during = staged_tables(db, prefix)
        table.apply_staged(stage, names, {0: 1})
        after = staged_tables(db, prefix)
        staged(pipeline, table, [Record(0, 1, b"a", b"w", 2)])
        left = staged_tables(db, prefix)
        table.close()

        again = open_target(pipeline)
        again.prepare()
        swept = staged_tables(db, prefix)
        again.close()

    assert (len(during), after, len(left), swept) == (1, [], 1, [])
