"""Errors of tasks as data: what was raised, and whether another attempt may help. Pure.

A task of Spark that raises ends as text inside a stack trace. So ours do not raise: they return
what went wrong, and the driver raises it again.
"""

from collections.abc import Callable, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptRecord, KafkaError, LedgerstoneError
from ledgerstone.pipeline.errors import (
    DefinitionError,
    PipelineError,
    RecordRefused,
    TopicChanged,
)
from ledgerstone.spark.errors import DataLoss, TopicRecreated

Job = TypeVar("Job")
Done = TypeVar("Done")

_MAX_TEXT: Final = 2000
# Those that callers tell apart. Any other comes back as a PipelineError with the same words.
_KNOWN: Final[dict[str, type[LedgerstoneError]]] = {
    each.__name__: each
    for each in (PipelineError, RecordRefused, TopicChanged, DataLoss, TopicRecreated)
}


class TaskFailure(NamedTuple):
    kind: str  # the name of its class
    message: str
    is_ours: bool
    retriable: bool

    def error(self) -> LedgerstoneError:
        known = _KNOWN.get(self.kind) if self.is_ours else None
        if known is not None:
            return known(self.message)
        if self.is_ours:
            return PipelineError(f"{self.message or self.kind}")
        return PipelineError(f"a task failed: {self.kind}: {self.message}")


def failure_from(error: Exception) -> TaskFailure:
    is_ours = isinstance(error, LedgerstoneError)
    # A log that is cleaned while it is read looks corrupt; a database or a broker may come back.
    retriable = isinstance(error, CorruptRecord | OSError) or (
        error.retriable if isinstance(error, KafkaError) else False
    )
    if isinstance(error, PipelineError) and not isinstance(error, RecordRefused | TopicChanged):
        retriable = error.__cause__ is not None
    if isinstance(error, DefinitionError):
        retriable = False
    return TaskFailure(type(error).__name__, str(error)[:_MAX_TEXT], is_ours, retriable)


def worst_of(failures: Iterable[TaskFailure]) -> TaskFailure:
    """One that cannot pass is the one to tell."""
    return min(failures, key=lambda each: each.retriable)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedFailures(Generic[Job, Done]):
    """Picklable: calls `work`, and returns what it raises."""

    work: Callable[[Job], Done]

    def __call__(self, job: Job) -> "Done | TaskFailure":
        try:
            return self.work(job)
        except Exception as error:  # noqa: BLE001 - whatever it is, it travels as data
            return failure_from(error)
