"""Keys and values of a definition: their format, and the columns they become. Pure."""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ledgerstone.pipeline.avro_schema import columns_of_schema
from ledgerstone.pipeline.column_types import ColumnType, named_type
from ledgerstone.pipeline.definition import Column, ColumnCodec, ComputedColumn, Format
from ledgerstone.pipeline.definition_section import Section
from ledgerstone.pipeline.errors import DefinitionError

MAX_COLUMNS: Final = 500
_FORMATS: Final = {
    Format.STRING: ("format", "column"),
    Format.RAW: ("format", "column"),
    Format.JSON: ("format", "columns"),
    Format.AVRO: ("format", "schema", "registry", "columns"),
    Format.PROTOBUF: ("format", "schema", "message", "registry", "columns"),
}

ReadFile = Callable[[str], bytes]


class CodecRead(NamedTuple):
    codec: ColumnCodec
    computed: tuple[ComputedColumn, ...]


class _Columns(NamedTuple):
    decoded: tuple[Column, ...]
    computed: tuple[ComputedColumn, ...]


def read_codec(top: Section, name: str, read_file: ReadFile) -> CodecRead:
    every = tuple(dict.fromkeys(key for keys in _FORMATS.values() for key in keys))
    kind = top.section(name, every).one_of("format", Format)
    is_plain = kind in (Format.STRING, Format.RAW)
    known = _FORMATS[kind]
    # Their further columns are expressions, which a value has.
    section = top.section(name, (*known, "columns") if is_plain and name == "value" else known)
    said = _columns(section)
    if is_plain:
        type_ = ColumnType.STRING if kind is Format.STRING else ColumnType.BINARY
        if said.decoded:
            raise DefinitionError(
                section.key(f"columns.{said.decoded[0].name}"),
                None,
                f"{kind.value} has one column, named by column; the others are expressions",
            )
        column = Column(name=section.text("column"), type=type_, path=())
        codec = ColumnCodec(format=kind, columns=(column,))
    elif kind is Format.JSON:
        codec = ColumnCodec(format=kind, columns=_needed(section, said))
    elif kind is Format.AVRO:
        codec = _avro(section, said, read_file)
    else:
        codec = _protobuf(section, said, read_file)
    return CodecRead(codec, said.computed)


def _avro(section: Section, said: _Columns, read_file: ReadFile) -> ColumnCodec:
    registry = section.optional_text("registry")
    content = _schema_file(section, registry, read_file)
    try:
        schema = None if content is None else content.decode()
    except UnicodeDecodeError as error:
        raise section.refuse("schema", str(error)) from error
    if schema is None or said.decoded:
        columns = _needed(section, said)
    else:
        try:
            columns = columns_of_schema(schema)
        except ValueError as error:
            raise section.refuse("schema", str(error)) from error
    return ColumnCodec(format=Format.AVRO, columns=columns, schema=schema, registry=registry)


def _schema_file(section: Section, registry: str | None, read_file: ReadFile) -> bytes | None:
    file = section.optional_text("schema")
    if (file is None) == (registry is None):
        raise section.refuse("schema", "give either schema, a file, or registry, a URL")
    try:
        return None if file is None else read_file(file)
    except OSError as error:
        raise section.refuse("schema", str(error)) from error


def _protobuf(section: Section, said: _Columns, read_file: ReadFile) -> ColumnCodec:
    try:
        from ledgerstone.pipeline.protobuf_schema import columns_of_message, message_of_set
    except ImportError:
        reason = "protobuf is not installed: in the checkout, pip install '.[protobuf]'"
        raise section.refuse("format", reason) from None
    registry, name = section.optional_text("registry"), section.optional_text("message")
    content = _schema_file(section, registry, read_file)
    if content is None:
        if name is not None:
            raise section.refuse("message", "each record names its own, with a registry")
        columns = _needed(section, said)
        return ColumnCodec(format=Format.PROTOBUF, columns=columns, registry=registry)
    if name is None:
        raise section.refuse("message", "is missing: the full name of a message of the schema")
    try:
        found = columns_of_message(message_of_set(content, name))
    except ValueError as error:
        raise section.refuse("schema", str(error)) from error
    columns = said.decoded or found
    if not 0 < len(columns) <= MAX_COLUMNS:
        raise section.refuse("schema", f"{name} has {len(columns)} columns; name some in columns")
    return ColumnCodec(format=Format.PROTOBUF, columns=columns, descriptors=content, message=name)


def _needed(section: Section, said: _Columns) -> tuple[Column, ...]:
    if not said.decoded:
        raise section.refuse("columns", f"expected 1 to {MAX_COLUMNS} columns, name: type")
    return said.decoded


def _columns(section: Section) -> _Columns:
    content = section.get("columns")
    if content is None:
        return _Columns((), ())
    if not isinstance(content, Mapping) or not 0 < len(content) <= MAX_COLUMNS:
        raise section.refuse("columns", f"expected 1 to {MAX_COLUMNS} columns, name: type")
    found = [_column(section.key("columns"), name, said) for name, said in content.items()]
    return _Columns(
        tuple(each for each in found if isinstance(each, Column)),
        tuple(each for each in found if isinstance(each, ComputedColumn)),
    )


def _column(place: str, name: object, said: object) -> Column | ComputedColumn:
    if not isinstance(name, str):
        raise DefinitionError(place, name, "the name of a column is text")
    if isinstance(said, str):
        said = {"type": said}
    section = Section(said, f"{place}.{name}", ("type", "path", "stored", "expression"))
    try:
        kind = named_type(section.get("type"))
    except ValueError as error:
        raise section.refuse("type", str(error)) from None
    expression = section.optional_text("expression")
    if expression is not None:
        for other in ("path", "stored"):
            if section.get(other) is not None:
                raise section.refuse(other, "does not go with an expression")
        column = Column(name=name, type=kind, path=())
        return ComputedColumn(column=column, expression=expression)
    is_stored = section.flag("stored", default=True)
    return Column(name=name, type=kind, path=_path(section, name), is_stored=is_stored)


def _path(section: Section, name: str) -> tuple[str, ...]:
    path = section.get("path")
    if path is None:
        path = [name]
    elif isinstance(path, str):
        path = path.split(".")
    if not isinstance(path, list) or not path or not all(isinstance(e, str) for e in path):
        raise section.refuse("path", "expected text like address.city, or a list of names")
    return tuple(path)
