"""What can go wrong in a demonstration. Pure."""

from ledgerstone.errors import LedgerstoneError


class DemoFailed(LedgerstoneError):
    """A step did not do what it says; the message names it and the numbers."""


class NoRepository(LedgerstoneError):
    """There is no history to be read here."""


class TooLittleHistory(LedgerstoneError):
    """There is a history, and it has nothing to show."""
