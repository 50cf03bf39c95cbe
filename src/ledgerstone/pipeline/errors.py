"""What a pipeline says when it cannot go on. Pure."""

from ledgerstone.errors import LedgerstoneError


class DefinitionError(LedgerstoneError):
    """A definition is refused: says which key of it, the value if it has one, and the reason."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        said = "" if value is None else f"{value!r:.80}: "
        super().__init__(f"{key}: {said}{reason}")
        self.key = key


class PipelineError(LedgerstoneError):
    """A run cannot go on; the message says why, and what can be done."""


class RecordRefused(PipelineError):
    """A record is not what the definition says, and the policy is to stop."""


class DeletesMissed(PipelineError):
    """Tombstones were removed from the log before the pipeline had read them."""


class TopicChanged(PipelineError):
    """What is there was made of another topic: one that has another name, or only another id."""
