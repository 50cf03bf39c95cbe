"""What the controller answers: records to be committed, and the response for after that. Pure."""

from typing import Final, Generic, NamedTuple, TypeVar

from ledgerstone.errors import KafkaError
from ledgerstone.protocol.message import MetadataRecord

R = TypeVar("R")

# Reasons quote what the client sent. Older versions of a response hold strings of at most 32 KiB,
# and nobody reads that far.
_LONGEST_REASON: Final = 1000


class Decision(NamedTuple, Generic[R]):
    """The records are appended; the response is sent once they are committed."""

    records: list[MetadataRecord]
    response: R
    # In one batch. Otherwise they may be cut: every prefix of them is a state to go on from.
    is_atomic: bool = True
    # The quorum itself is to be upgraded to this level of kraft.version first.
    kraft_version: int | None = None


def reason_of(error: KafkaError) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
