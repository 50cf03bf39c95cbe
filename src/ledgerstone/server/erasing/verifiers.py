"""Downstream verifiers that are installed beside the broker, and asking one. Shell.

They come as entry points of the group `ledgerstone.erasure_verifiers`, found when the first erasure
needs to know. A plug-in is other people's code: whatever it raises is a reason, never an end.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ledgerstone.server.effects import AskVerifier

if TYPE_CHECKING:
    from ledgerstone.erasure.verifiers import Verifier, Word

_LOG: Final = logging.getLogger(__name__)


class Verifiers:
    def __init__(self) -> None:
        self._loaded: Mapping[str, Verifier] | None = None

    def names(self) -> Sequence[str]:
        return tuple(self._all())

    def ask(self, effect: AskVerifier) -> "Sequence[Word] | str":
        """Runs in a thread and may take long; a text says why there is no answer."""
        from ledgerstone.erasure.erasure import ScanOutcome
        from ledgerstone.erasure.verifiers import Word

        verifier = self._all().get(effect.name)
        if verifier is None:
            return f"no verifier {effect.name} is installed here"
        try:
            words = verifier.verify(effect.question)
            # Who may not import the erasures gives the outcome by its value.
            return [Word(output, ScanOutcome(value), text) for output, value, text in words]
        except Exception as error:  # noqa: BLE001 - a border: what a plug-in does wrong is told
            # Not its text: a plug-in that was given a key may quote it.
            return f"it failed with {type(error).__name__}"

    def _all(self) -> "Mapping[str, Verifier]":
        if self._loaded is None:
            # Imported here: it takes longer than much of a start, and most brokers erase nothing.
            from importlib.metadata import entry_points

            from ledgerstone.erasure.verifiers import GROUP, load_verifiers

            try:
                self._loaded = load_verifiers(entry_points(group=GROUP))
            except Exception as error:  # noqa: BLE001 - a border: so is what it does when loaded
                _LOG.error("verifiers not loaded reason=%s", error)
                self._loaded = {}
        return self._loaded
