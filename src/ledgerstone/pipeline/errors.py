"""Errors of pipelines. Pure."""

from ledgerstone.errors import LedgerstoneError


class DefinitionError(LedgerstoneError):
    """A definition is invalid: names the key, its value if it has one, and the reason."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        said = "" if value is None else f"{value!r:.80}: "
        super().__init__(f"{key}: {said}{reason}")
        self.key = key


class PipelineError(LedgerstoneError):
    """A run cannot continue; the message says why, and what to do."""


class RecordRefused(PipelineError):
    """A record does not fit the definition, and the policy is to stop."""


class DeletesMissed(PipelineError):
    """Tombstones were removed from the log before the pipeline had read them."""


class TopicChanged(PipelineError):
    """The existing data comes from another topic: one with another name, or only another id."""
