"""Runs the jobs of a table on Spark's executors. Shell.

A job goes there as a pickled tuple and comes back as one: counts, names and offsets, or a failure
as data. Spark repeats a job whose process died; we repeat one that failed for a reason that may
pass.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.tables.target import Done, Job
from ledgerstone.pipeline.task_failures import ReturnedFailures, TaskFailure, worst_of
from ledgerstone.pipeline.turns import Turns

# As Spark's own spark.task.maxFailures.
ATTEMPTS: Final = 4
# Spark waits ten seconds for a Python process to start; a busy machine may take longer.
_NOT_STARTED: Final = "Python worker failed to connect back"
_STARTS: Final = 3

logger = logging.getLogger(__name__)


def context_of(spark: Any) -> Any:  # noqa: ANN401 - a SparkSession, and its SparkContext
    """Refuses a session of Spark Connect, whose client has none."""
    from pyspark.errors import PySparkAttributeError

    try:
        return spark.sparkContext
    except PySparkAttributeError as error:
        raise PipelineError(
            "this needs the SparkContext of the driver, which a client of Spark Connect does not "
            "have: run it with spark-submit, or with a master instead of a remote address"
        ) from error


class SparkExecutors:
    def __init__(self, spark: Any, turns: Turns | None = None) -> None:  # noqa: ANN401 - a SparkSession
        """`turns` are those of all pipelines of the session."""
        self._context = context_of(spark)
        self._turns = turns

    @property
    def parallelism(self) -> int:
        return max(1, int(self._context.defaultParallelism))

    def run(self, work: Callable[[Job], Done], jobs: Sequence[Job]) -> list[Done]:
        found: dict[int, Done] = {}
        for left in reversed(range(ATTEMPTS)):
            numbers = [number for number in range(len(jobs)) if number not in found]
            failures: list[TaskFailure] = []
            for number, outcome in self._collected(work, jobs, numbers):
                if isinstance(outcome, TaskFailure):
                    failures.append(outcome)
                else:
                    found[number] = outcome
            if not failures:
                break
            worst = worst_of(failures)
            if not left or not worst.retriable:
                raise worst.error()
            logger.warning("%d of %d jobs are repeated: %s", len(failures), len(jobs), worst)
        return [found[number] for number in range(len(jobs))]

    def _collected(
        self, work: Callable[[Job], Done], jobs: Sequence[Job], numbers: list[int]
    ) -> list[tuple[int, Any]]:
        if not numbers:
            return []
        some = [(number, jobs[number]) for number in numbers]
        told = ReturnedFailures(work=work)
        spread = self._context.parallelize(some, len(some))
        with self._turn():
            return _outcomes(spread.map(lambda pair: (pair[0], told(pair[1]))))

    def _turn(self) -> AbstractContextManager[None]:
        return nullcontext() if self._turns is None else self._turns.one_of(self.parallelism)

    def exchange(
        self, give: Callable[[Job], Iterable[tuple[int, Any]]], jobs: Sequence[Job], parts: int
    ) -> "Exchange":
        """Each job gives things away to numbered parts. Spark brings those of a part together."""
        given = self._context.parallelize(jobs, max(1, len(jobs))).flatMap(give)
        return Exchange(given.groupByKey(min(parts, 2 * self.parallelism)))


class Exchange:
    """What jobs gave to parts. It stays with the executors until this is dropped, so that each
    `run` begins there."""

    def __init__(self, parts: Any) -> None:  # noqa: ANN401 - an RDD
        self._parts = parts

    def run(self, work: Callable[[Iterable[Any]], Done]) -> "list[Done | TaskFailure]":
        """For each part that was given anything, in no order."""
        told = ReturnedFailures(work=work)
        return _outcomes(self._parts.map(lambda pair: told(pair[1])))


def _outcomes(spread: Any) -> list[Any]:  # noqa: ANN401 - an RDD
    for left in reversed(range(_STARTS)):
        try:
            return list(spread.collect())
        except Exception as error:
            if not left or _NOT_STARTED not in str(error):
                raise
            logger.warning("a Python process of Spark did not start in time; again")
    raise AssertionError("the last attempt returns or raises")
