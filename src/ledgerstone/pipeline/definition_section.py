"""One mapping of a definition, with typed access to its keys. Pure; every error names its key.

An unknown key is refused: a setting without effect is worse than none.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, TypeVar

from ledgerstone.pipeline.errors import DefinitionError

E = TypeVar("E", bound=Enum)


class Section:
    """Reports an unknown key before a missing one:
    they may be the same key, misspelt."""

    def __init__(self, content: object, place: str, known: tuple[str, ...]) -> None:
        if not isinstance(content, Mapping):
            raise DefinitionError(place or "definition", content, "expected a mapping")
        self._content: dict[object, Any] = dict(content)
        self._place = place
        for name in self._content:
            if name not in known:
                near = get_close_matches(str(name), known, n=1)
                meant = f"; did you mean {near[0]}?" if near else ""
                said = f"unknown key; known keys are {', '.join(known)}{meant}"
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
            raise self.refuse(name, "expected text")
        if "\0" in value:
            raise self.refuse(name, "contains a zero character")
        return value

    def optional_text(self, name: str) -> str | None:
        return None if self.get(name) is None else self.text(name)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.refuse(name, "expected true or false")
        return value

    def count(self, name: str, default: int, *, minimum: int = 1) -> int:
        value = self.get(name)
        if value is None:
            return default
        if type(value) is not int or value < minimum:
            raise self.refuse(name, f"expected a whole number of at least {minimum}")
        return value

    def one_of(self, name: str, kind: type[E], default: E | None = None) -> E:
        value = self.get(name)
        if value is None and default is not None:
            return default
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise self.refuse(name, f"expected one of {known}") from None
