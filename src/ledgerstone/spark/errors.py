"""What a query is told when it cannot go on. Pure."""

from ledgerstone.errors import LedgerstoneError

HOW_TO_GO_ON = "set failOnDataLoss=false to go on without it"


class DataLoss(LedgerstoneError):
    """Offsets that a query still had to read are not there any more."""


class MissedTombstones(LedgerstoneError):
    """Deletes were removed from the log before a query had read them."""


class WriteFailed(LedgerstoneError):
    """Rows that did not become records."""
