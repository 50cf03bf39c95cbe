"""What the controller answers: records to be committed, and the response for after that. Pure."""

from typing import Final, Generic, NamedTuple, TypeVar

from ledgerstone.errors import InvalidConfig, KafkaError
from ledgerstone.protocol.decoding import LONGEST_STRING
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


def check_fits_record(name: str, text: str) -> None:
    """A setting may be longer than any that comes in a request: joined of two, or from a form.
    Nobody could read its record: the log of the metadata would end there for every node, and for
    good."""
    size = len(text.encode(errors="surrogatepass"))
    if size > LONGEST_STRING:
        raise InvalidConfig(f"{name} would have {size} bytes, at most {LONGEST_STRING}")


def reason_of(error: KafkaError) -> str:
    text = str(error)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"
