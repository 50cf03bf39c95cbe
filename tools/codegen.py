"""Writes src/ledgerstone/protocol/messages/ from the schema texts. Shell; `--check` only compares.

    python tools/codegen.py [--check]

One module per schema text: a typed class per struct, and the text itself. The codec is compiled
from it when a message is first used, so that running needs no file but the module. Schemas of
features that are not built yet get no module, only their line in the registry.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from ledgerstone.protocol.notation import FieldSpec, MessageSpec, Schema, StructSpec, parse

PACKAGE: Final = Path(__file__).resolve().parent.parent / "src" / "ledgerstone" / "protocol"
SCHEMAS: Final = PACKAGE / "schemas"
MESSAGES: Final = PACKAGE / "messages"

# Share groups, Streams groups, delegation tokens and client telemetry. To use one, remove its name.
NOT_BUILT: Final = frozenset({
    "alter_share_group_offsets", "create_delegation_token", "delete_share_group_offsets",
    "delete_share_group_state", "describe_delegation_token", "describe_share_group_offsets",
    "expire_delegation_token", "get_telemetry_subscriptions", "initialize_share_group_state",
    "push_telemetry", "read_share_group_state", "read_share_group_state_summary",
    "renew_delegation_token", "share_acknowledge", "share_fetch", "share_group_describe",
    "share_records", "streams_group_describe", "streams_group_heartbeat",
    "write_share_group_state",
})  # fmt: skip

TYPES: Final = {
    "bool": "bool", "i8": "int", "i16": "int", "i32": "int", "i64": "int", "u16": "int",
    "u32": "int", "f64": "float", "uuid": "bytes", "str": "str", "bytes": "bytes",
}  # fmt: skip
ZEROS: Final = {"bool": "False", "f64": "0.0", "uuid": "ZERO_UUID", "str": '""', "bytes": 'b""'}
BASES: Final = {"request": "ApiMessage", "response": "ApiMessage", "record": "MetadataRecord"}


def annotation(field: FieldSpec) -> str:
    if field.type == "records":
        return "Records"  # which has its own null
    inner = field.type if field.struct is not None else TYPES[field.type]
    text = f"list[{inner}]" if field.is_array else inner
    return f"{text} | None" if field.ever_null or field.starts_absent else text


def default(field: FieldSpec) -> str:
    if field.default is not None:
        return repr(field.default)
    if field.ever_null or field.starts_absent or field.type == "records":
        return "None"
    if field.is_array:
        return "[]"
    if field.struct is not None:
        return f"{field.type}()"
    return ZEROS.get(field.type, "0")


def struct_lines(struct: StructSpec, message: MessageSpec | None, schema: Schema) -> list[str]:
    base = "Struct" if message is None else BASES.get(message.kind, "Message")
    lines = [f"class {struct.name}({base}):"]
    if message is not None and message.kind in ("request", "response"):
        lines += [f"    api_key: ClassVar[int] = {message.number}"]
        lines += [f'    name: ClassVar[str] = "{schema.api_name}"', ""]
    elif message is not None and message.kind == "record":
        lines += [f"    record_type: ClassVar[int] = {message.number}", ""]
    if not struct.fields:
        return [*lines, "    __slots__ = ()", "", ""]
    names = "".join(f'"{each.name}",' for each in struct.fields)
    lines += [f"    __slots__ = ({names})", "", "    def __init__(", "        self,"]
    lines += [f"        {parameter(each)}," for each in struct.fields]
    lines += ["    ) -> None:", *(f"        {assignment(each)}" for each in struct.fields)]
    return [*lines, "", ""]


def parameter(field: FieldSpec) -> str:
    """What is made anew for each object has a mark for its default here."""
    value = "ABSENT" if fresh(field) else default(field)
    return f"{field.name}: {annotation(field)} = {value}"


def assignment(field: FieldSpec) -> str:
    if not fresh(field):
        return f"self.{field.name} = {field.name}"
    made = default(field)
    return f"self.{field.name} = {made} if {field.name} is ABSENT else {field.name}"


def fresh(field: FieldSpec) -> bool:
    return default(field).endswith(("[]", "()"))


def classes(schema: Schema) -> list[str]:
    lines: list[str] = []
    written: set[str] = set()
    for message in schema.messages:
        for struct in message.structs():
            if struct.name in written:
                continue
            written.add(struct.name)
            is_message = struct is message.root
            lines += struct_lines(struct, message if is_message else None, schema)
    return lines


def imports(body: str) -> list[str]:
    typing = (["ClassVar"] if "ClassVar" in body else []) + ["Final"]
    words = ("ABSENT", "ZERO_UUID", "ApiMessage", "Message", "MetadataRecord", "Struct")
    used = [word for word in words if f"({word})" in body or re.search(rf"= {word}\b", body)]
    lines = [f"from typing import {', '.join(typing)}", ""]
    lines.append(f"from ledgerstone.protocol.message import {', '.join(used)}")
    if ": Records" in body:
        lines.append("from ledgerstone.protocol.pieces import Records")
    return [*lines, "", ""]


def title(schema: Schema) -> str:
    if schema.api_name is None:
        return f"{Path(schema.file).stem.replace('_', ' ').capitalize()}."
    return f"{schema.api_name}, api key {schema.api_key}."


def docstring(first: str, source: str) -> list[str]:
    return [f'"""{first} Pure.', "", f"Made from schemas/{source} by tools/codegen.py.", '"""', ""]


def module(schema: Schema, text: str) -> str:
    body = "\n".join(classes(schema))
    kept = "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))
    lines = [*docstring(title(schema), schema.file), *imports(body), body]
    return "\n".join([*lines, f'SCHEMA: Final = """\\\n{kept}\n"""', ""])


def registry(schemas: list[Schema]) -> str:
    """`messages/__init__.py`: every API, without importing any of their modules."""
    apis = sorted((each.api_key, each) for each in schemas if each.api_key is not None)
    lines = docstring("Every API: its key, its versions, the module of its messages.", "*.txt")
    lines += ["from enum import IntEnum", "from typing import Final, NamedTuple", "", ""]
    lines += ["class ApiKey(IntEnum):"]
    lines += [f"    {snake(schema).upper()} = {key}" for key, schema in apis]
    lines += ["", "", "class Api(NamedTuple):", "    name: str"]
    lines += ["    module: str | None  # None: no messages generated, the feature is not built"]
    lines += ["    first_version: int", "    last_version: int"]
    lines += ["    flexible_from: int | None", "", "", "APIS: Final = {"]
    lines += [f"    {key}: {api_entry(schema)}," for key, schema in apis]
    return "\n".join([*lines, "}", ""])


def snake(schema: Schema) -> str:
    return Path(schema.file).stem


def api_entry(schema: Schema) -> str:
    request, response = schema.messages
    shape = (*request.versions, request.flexible_from)
    if shape != (*response.versions, response.flexible_from):
        raise SystemExit(f"{schema.file}: request and response differ in their versions")
    first, last, flexible_from = shape
    module = None if snake(schema) in NOT_BUILT else snake(schema)
    return f"Api({schema.api_name!r}, {module!r}, {first}, {last}, {flexible_from})"


def generate(target: Path) -> None:
    schemas: list[Schema] = []
    for path in sorted(SCHEMAS.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        schema = parse(text, path.name)
        schemas.append(schema)
        if path.stem not in NOT_BUILT:
            (target / f"{path.stem}.py").write_text(module(schema, text), encoding="utf-8")
    (target / "__init__.py").write_text(registry(schemas), encoding="utf-8")
    ruff = shutil.which("ruff", path=str(Path(sys.executable).parent)) or "ruff"
    options = ["--isolated", "--quiet", "--line-length", "100", "--target-version", "py311"]
    subprocess.run([ruff, "format", *options, str(target)], check=True)


def differences(fresh: Path) -> list[str]:
    wanted = {path.name: path.read_text(encoding="utf-8") for path in fresh.glob("*.py")}
    present = {path.name: path.read_text(encoding="utf-8") for path in MESSAGES.glob("*.py")}
    names = sorted({**wanted, **present})
    return [name for name in names if wanted.get(name) != present.get(name)]


def install(fresh: Path) -> None:
    MESSAGES.mkdir(exist_ok=True)
    for path in MESSAGES.glob("*.py"):
        if not (fresh / path.name).exists():
            path.unlink()
    for path in fresh.glob("*.py"):
        shutil.copyfile(path, MESSAGES / path.name)


def main() -> int:
    with tempfile.TemporaryDirectory() as directory:
        fresh = Path(directory)
        generate(fresh)
        changed = differences(fresh)
        if "--check" not in sys.argv[1:]:
            install(fresh)
            print(f"codegen: {len(changed)} modules changed")
            return 0
    for name in changed:
        print(f"{MESSAGES.name}/{name} is not what the schemas say: python tools/codegen.py")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
