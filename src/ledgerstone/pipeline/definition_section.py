"""One mapping of a definition, with words for its keys. Pure; every refusal names the key.

A key that is not known is refused: a setting that nobody reads is worse than none.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from ledgerstone.pipeline.errors import DefinitionError

E = TypeVar("E", bound=Enum)


class Section:
    """A key that is not known is told before one that is missing:
    it may be the same, misspelt."""

    def __init__(self, content: object, place: str, known: tuple[str, ...]) -> None:
        if not isinstance(content, Mapping):
            raise DefinitionError(place or "definition", content, "a mapping is expected")
        self._content: dict[object, Any] = dict(content)
        self._place = place
        for name in self._content:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                meant = f"; {near[0]} may be meant" if near else ""
                said = f"not of {', '.join(known)}{meant}"
                raise DefinitionError(self.key(str(name)), self._content[name], said)

    def key(self, name: str) -> str:
        return f"{self._place}.{name}" if self._place else name

    def get(self, name: str) -> Any:  # noqa: ANN401 - whatever YAML gives
        return self._content.get(name)

    def refuse(self, name: str, reason: str) -> DefinitionError:
        return DefinitionError(self.key(name), self._content.get(name), reason)

    def section(self, name: str, known: tuple[str, ...]) -> "Section":
        if self.get(name) is None:
            raise self.refuse(name, "is missing")
        return Section(self.get(name), self.key(name), known)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.get(name)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.refuse(name, "is missing")
        if not isinstance(value, str) or not value:
            raise self.refuse(name, "text is expected")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "true or false is expected")
        return value

    def count(self, name: str, default: int, *, minimum: int = 1) -> int:
        value = self.get(name)
        if value is None:
            return default
        if type(value) is not int or value < minimum:
            raise self.refuse(name, f"a whole number from {minimum} on is expected")
        return value

    def one_of(self, name: str, kind: type[E], default: E | None = None) -> E:
        value = self.get(name)
        if value is None and default is not None:
            return default
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise self.refuse(name, f"one of {known} is expected") from None
