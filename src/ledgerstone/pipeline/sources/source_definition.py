"""A source's definition as values, and from a mapping. Pure; every error names its key.

name: users
bootstrap: 127.0.0.1:9092
topic: users
from: {type: postgres, location: "host=…", table: users, key: [id], version: updated_at}
"""

from collections.abc import Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, TypeVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.pipeline.sources.row_bytes import KeyFormat
from ledgerstone.pipeline.sources.shape import FileMode, TableShape

E = TypeVar("E", bound=Enum)

_TOP: Final = ("name", "bootstrap", "command_config", "topic", "from", "work")
_TABLE: Final = (
    "type", "location", "table", "key", "key_format", "version", "columns", "max_deletes", "slot",
)  # fmt: skip
_FILES: Final = ("type", "location", "pattern", "mode")


class SourceType(Enum):
    SQLITE = "sqlite"
    POSTGRES = "postgres"
    FILES = "files"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDefinition:
    name: str
    bootstrap: str
    topic: str
    type: SourceType
    location: str  # a file, a directory, a connection string
    work: str
    shape: TableShape | None = None  # of a table
    slot: str | None = None  # PostgreSQL: logical decoding under this name
    pattern: str = "*"
    mode: FileMode = FileMode.WHOLE
    command_config: str | None = None  # a file with the client's properties by Kafka's names


def read_source(content: object) -> SourceDefinition:
    top = _mapping(content, "", _TOP)
    origin = _mapping(top.get("from"), "from", _TABLE if _is_table(top) else _FILES)
    name = _text(top, "name", "name")
    kind = _one_of(origin, "type", "from.type", SourceType)
    shape, slot = None, None
    if kind is not SourceType.FILES:
        shape = _shape(origin)
        slot = None if origin.get("slot") is None else _text(origin, "slot", "from.slot")
        if slot is not None and kind is not SourceType.POSTGRES:
            raise DefinitionError("from.slot", slot, "only PostgreSQL has logical decoding")
    return SourceDefinition(
        name=name,
        bootstrap=_text(top, "bootstrap", "bootstrap"),
        topic=_text(top, "topic", "topic"),
        type=kind,
        location=_text(origin, "location", "from.location"),
        work=_work(top, name),
        shape=shape,
        slot=slot,
        pattern="*" if origin.get("pattern") is None else _text(origin, "pattern", "from.pattern"),
        mode=_one_of(origin, "mode", "from.mode", FileMode, FileMode.WHOLE),
        command_config=(
            None
            if top.get("command_config") is None
            else _text(top, "command_config", "command_config")
        ),
    )


def _work(top: Mapping[str, Any], name: str) -> str:
    if top.get("work") is not None:
        return _text(top, "work", "work")
    if {"", ".", ".."} & {*name.split("/")}:
        # The files would lie among those of other sources, or anywhere.
        raise DefinitionError("name", name, "is a place outside its own directory; set work")
    return f".ledgerstone/{name}"


def _is_table(top: Mapping[str, Any]) -> bool:
    origin = top.get("from")
    return not isinstance(origin, Mapping) or origin.get("type") != SourceType.FILES.value


def _shape(origin: Mapping[str, Any]) -> TableShape:
    keys = _names(origin, "key")
    if not keys:
        raise DefinitionError("from.key", origin.get("key"), "expected at least one column")
    default = KeyFormat.STRING if len(keys) == 1 else KeyFormat.JSON
    key_format = _one_of(origin, "key_format", "from.key_format", KeyFormat, default)
    if key_format is KeyFormat.STRING and len(keys) > 1:
        raise DefinitionError("from.key_format", "string", "several columns make a key of JSON")
    max_deletes = origin.get("max_deletes")
    if max_deletes is not None and (type(max_deletes) is not int or max_deletes < 0):
        raise DefinitionError("from.max_deletes", max_deletes, "expected a whole number")
    version = None if origin.get("version") is None else _text(origin, "version", "from.version")
    columns = _names(origin, "columns")
    return TableShape(
        table=_text(origin, "table", "from.table"),
        key_columns=keys,
        key_format=key_format,
        version_column=version,
        columns=columns,
        max_deletes=max_deletes,
    )


def _mapping(content: object, key: str, known: tuple[str, ...]) -> dict[str, Any]:
    if content is None and key:
        raise DefinitionError(key, content, "is missing")
    if not isinstance(content, Mapping):
        raise DefinitionError(key or "definition", content, "expected a mapping")
    for name in content:
        if name not in known:
            place = f"{key}.{name}" if key else str(name)
            near = get_close_matches(str(name), known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise DefinitionError(
                place, content[name], f"unknown key; known keys are {', '.join(known)}{meant}"
            )
    return dict(content)


def _text(content: Mapping[str, Any], name: str, key: str) -> str:
    value = content.get(name)
    if value is None:
        raise DefinitionError(key, value, "is missing")
    if not isinstance(value, str) or not value:
        raise DefinitionError(key, value, "expected text")
    return value


def _names(content: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = content.get(name) or []
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise DefinitionError(f"from.{name}", value, "expected names of columns")
    return tuple(value)


def _one_of(
    content: Mapping[str, Any], name: str, key: str, kind: type[E], default: E | None = None
) -> E:
    value = content.get(name)
    if value is None and default is not None:
        return default
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(str(each.value) for each in kind)
        raise DefinitionError(key, value, f"expected one of {known}") from None
