"""Errors of the demo. Pure."""

from ledgerstone.errors import LedgerstoneError


class DemoFailed(LedgerstoneError):
    """A step failed; the message names it and the numbers."""


class NoRepository(LedgerstoneError):
    """There is no git history here."""


class TooLittleHistory(LedgerstoneError):
    """The history is too small to show anything."""
