"""Errors of queries. Pure."""

from ledgerstone.errors import LedgerstoneError

HOW_TO_GO_ON = "set failOnDataLoss=false to go on without it"


def said_recreated(topic: str, before: str, now: str) -> str:
    return f"topic {topic} was deleted and created again: its id was {before} and is {now}"


class DataLoss(LedgerstoneError):
    """Offsets that a query had not read yet no longer exist."""


class TopicRecreated(DataLoss):
    """The topic was deleted and created again: its offsets mean other records."""


class MissedTombstones(LedgerstoneError):
    """Deletes were removed from the log before a query had read them."""


class WriteFailed(LedgerstoneError):
    """Rows that did not become records."""
