"""Reads the schema notation into immutable specs. Pure. The notation is in schemas/README.md.

A spec describes a message in all versions at once; the compiler picks one version. Errors name
file, line and column.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import LedgerstoneError

INDENT: Final = 4
NEWEST: Final = 32767  # the end of an open range; versions are i16 on the wire

PRIMITIVES: Final = (
    "bool", "i8", "i16", "i32", "i64", "u16", "u32", "f64", "uuid", "str", "bytes", "records",
)  # fmt: skip
NULLABLE: Final = ("str", "bytes", "records")
KINDS: Final = ("request", "response", "record", "key", "value", "data")

_HEADING = re.compile(r"api (?P<key>\d+) (?P<name>[A-Z]\w*)$")
_MESSAGE = re.compile(
    r"(?P<kind>[a-z]+)(?: (?P<number>\d+))?(?: (?P<name>[A-Z]\w*))? "
    r"v(?P<first>\d+)-(?P<last>\d+) (?:rigid|flexible (?P<flexible>\d+)\+)$"
)
_RANGE = r"\d+(?:-\d+|\+)?"
_FIELD = re.compile(
    r"(?P<name>[a-z]\w*): (?P<open>\[)?(?P<type>\w+)(?P<close>\])?"
    rf"(?P<nullable>\?(?P<nullable_in>{_RANGE})?)?"
    r"(?: #(?P<tag>\d+))?"
    r"(?: = (?P<default>-?\d+|true|null))?"
    rf"(?: @(?P<versions>{_RANGE}))?"
)


class NotationError(LedgerstoneError):
    """A schema text breaks the notation."""

    def __init__(self, file: str, line: int, column: int, reason: str) -> None:
        super().__init__(f"{file}:{line}:{column}: {reason}")
        self.file = file
        self.line = line
        self.column = column


class VersionRange(NamedTuple):
    """Versions `first` to `last`, both included."""

    first: int
    last: int

    def has(self, version: int) -> bool:
        return self.first <= version <= self.last


ALL_VERSIONS: Final = VersionRange(0, NEWEST)
NO_VERSIONS: Final = VersionRange(0, -1)


class StructSpec(NamedTuple):
    name: str
    fields: tuple["FieldSpec", ...]

    def fields_in(self, version: int) -> list["FieldSpec"]:
        return [f for f in self.fields if f.versions.has(version)]


class FieldSpec(NamedTuple):
    """One field of a struct; `struct` is set if `type` names one."""

    name: str
    type: str
    is_array: bool
    struct: StructSpec | None
    nullable: VersionRange
    tag: int | None
    default: int | bool | None  # None: no default is written, or it is null
    versions: VersionRange

    @property
    def ever_null(self) -> bool:
        return self.nullable != NO_VERSIONS

    @property
    def starts_absent(self) -> bool:
        """A tagged struct that is not sent is None rather than a struct full of defaults."""
        return self.tag is not None and self.struct is not None and not self.is_array


class MessageSpec(NamedTuple):
    """One message. `number` is the api key, or the type of a metadata record."""

    kind: str
    name: str
    number: int | None
    versions: VersionRange
    flexible_from: int | None
    root: StructSpec

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from

    def structs(self) -> list[StructSpec]:
        """Every struct once, each after those it contains."""
        found: dict[str, StructSpec] = {}
        _collect(self.root, found)
        return list(found.values())


class Schema(NamedTuple):
    """One schema text: an API's request and response, or a family of records."""

    file: str
    api_name: str | None
    api_key: int | None
    messages: tuple[MessageSpec, ...]


def _collect(struct: StructSpec, found: dict[str, StructSpec]) -> None:
    for each in struct.fields:
        if each.struct is not None:
            _collect(each.struct, found)
    found.setdefault(struct.name, struct)


class _Line(NamedTuple):
    number: int
    depth: int
    text: str


@dataclass(slots=True)
class _Reader:
    """Walks the lines of one text. `structs` holds those that later lines may reuse by name."""

    file: str
    lines: list[_Line]
    at: int = 0
    structs: dict[str, StructSpec] = field(default_factory=dict)

    def peek(self) -> _Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def fail(self, line: _Line, column: int, reason: str) -> NotationError:
        return NotationError(self.file, line.number, line.depth * INDENT + column + 1, reason)

    def fields(self, depth: int) -> tuple[FieldSpec, ...]:
        found: dict[str, FieldSpec] = {}
        while (line := self.peek()) is not None and line.depth >= depth:
            if line.depth > depth:
                raise self.fail(line, 0, "deeper than the field above it allows")
            self.at += 1
            one = self.field(line)
            if one.name in found:
                raise self.fail(line, 0, f"field {one.name} is repeated")
            found[one.name] = one
        return tuple(found.values())

    def field(self, line: _Line) -> FieldSpec:
        match = _FIELD.match(line.text)
        if match is None:
            raise self.fail(line, 0, f"not a field: {line.text!r}")
        if match.end() != len(line.text):
            raise self.fail(line, match.end(), f"not understood: {line.text[match.end() :]!r}")
        if bool(match["open"]) != bool(match["close"]):
            raise self.fail(line, match.start("type"), "an array needs both brackets")
        is_array = bool(match["open"])
        struct = self.struct_of(line, match)
        nullable = self.nullable(line, match, may_be=is_array or struct is not None)
        return FieldSpec(
            name=match["name"],
            type=match["type"],
            is_array=is_array,
            struct=struct,
            nullable=nullable,
            tag=None if match["tag"] is None else int(match["tag"]),
            default=self.default(line, match, nullable),
            versions=_versions(match["versions"]),
        )

    def struct_of(self, line: _Line, match: re.Match[str]) -> StructSpec | None:
        name, following = match["type"], self.peek()
        has_body = following is not None and following.depth > line.depth
        if name in PRIMITIVES:
            if has_body:
                raise self.fail(line, match.start("type"), f"{name} cannot hold fields")
            return None
        if not name[0].isupper():
            raise self.fail(line, match.start("type"), f"no such type: {name}")
        if not has_body:
            if name not in self.structs:
                raise self.fail(line, match.start("type"), f"{name} is not described above")
            return self.structs[name]
        if name in self.structs:
            raise self.fail(line, match.start("type"), f"{name} is described twice")
        struct = StructSpec(name, self.fields(line.depth + 1))
        self.structs[name] = struct
        return struct

    def nullable(self, line: _Line, match: re.Match[str], *, may_be: bool) -> VersionRange:
        if match["nullable"] is None:
            return NO_VERSIONS
        if not may_be and match["type"] not in NULLABLE:
            raise self.fail(line, match.start("nullable"), f"{match['type']} cannot be null")
        return _versions(match["nullable_in"])

    def default(
        self, line: _Line, match: re.Match[str], nullable: VersionRange
    ) -> int | bool | None:
        text, start = match["default"], match.start("default")
        if text is None:
            return None
        is_plain = match["open"] is None and match["type"] in PRIMITIVES
        if text == "null":
            if nullable == NO_VERSIONS:
                raise self.fail(line, start, "null is the default of a field that is never null")
            return None
        if not is_plain or match["type"] in (*NULLABLE, "uuid"):
            raise self.fail(line, start, f"{match['type']} cannot have the default {text}")
        if (text == "true") != (match["type"] == "bool"):
            raise self.fail(line, start, f"{text} is not a valid {match['type']}")
        return True if text == "true" else int(text)


def parse(text: str, file: str) -> Schema:
    reader = _Reader(file, list(_lines(text, file)))
    api_name: str | None = None
    api_key: int | None = None
    first = reader.peek()
    if first is not None and (heading := _HEADING.match(first.text)):
        reader.at += 1
        api_name, api_key = heading["name"], int(heading["key"])
    messages: list[MessageSpec] = []
    while (line := reader.peek()) is not None:
        messages.append(_message(reader, line, api_name, api_key))
    return Schema(file=file, api_name=api_name, api_key=api_key, messages=tuple(messages))


def _message(
    reader: _Reader, line: _Line, api_name: str | None, api_key: int | None
) -> MessageSpec:
    match = _MESSAGE.match(line.text)
    if match is None or line.depth:
        raise reader.fail(line, 0, f"not the head of a message: {line.text!r}")
    kind = match["kind"]
    if kind not in KINDS:
        raise reader.fail(line, 0, f"no such kind of message: {kind}")
    if (kind in ("request", "response")) != (api_name is not None):
        raise reader.fail(line, 0, f"{kind} in a text that has {'an' if api_name else 'no'} api")
    name = match["name"] or f"{api_name}{kind.capitalize()}"
    reader.at += 1
    fields = reader.fields(1)
    _check_tags(reader, line, fields)
    return MessageSpec(
        kind=kind,
        name=name,
        number=api_key if match["number"] is None else int(match["number"]),
        versions=VersionRange(int(match["first"]), int(match["last"])),
        flexible_from=None if match["flexible"] is None else int(match["flexible"]),
        root=StructSpec(name, fields),
    )


def _check_tags(reader: _Reader, line: _Line, fields: tuple[FieldSpec, ...]) -> None:
    tags: dict[int, str] = {}
    for each in fields:
        if each.tag is not None and each.tag in tags:
            reason = f"{each.name} and {tags[each.tag]} share tag {each.tag}"
            raise reader.fail(line, 0, reason)
        if each.tag is not None:
            tags[each.tag] = each.name
        if each.struct is not None:
            _check_tags(reader, line, each.struct.fields)


def _lines(text: str, file: str) -> Iterator[_Line]:
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0] if raw.lstrip().startswith("#") else raw
        line = line.rstrip()
        if not line:
            continue
        spaces = len(line) - len(line.lstrip(" "))
        if spaces % INDENT:
            raise NotationError(file, number, spaces + 1, f"indented by {spaces}, not by fours")
        yield _Line(number, spaces // INDENT, line[spaces:])


def _versions(text: str | None) -> VersionRange:
    if text is None:
        return ALL_VERSIONS
    first, _, last = text.rstrip("+").partition("-")
    if text.endswith("+"):
        return VersionRange(int(first), NEWEST)
    return VersionRange(int(first), int(last or first))
