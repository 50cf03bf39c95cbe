"""`ledgerstone configs`: settings of topics and brokers, with their sources. Shell."""

from typing import Annotated, Final

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_pairs,
)
from ledgerstone.cli.output import Cell, flush, printable, write_json, write_line, write_rows
from ledgerstone.client.configs import (
    ConfigSource,
    Resource,
    ResourceType,
    alter_configs,
    describe_configs,
)

app = new_app("Show and change settings of topics and brokers.")

_SET_BY_SOMEBODY: Final = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
)

KindArgument = Annotated[str, typer.Argument(metavar="topic|broker")]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A topic, a broker's id, or `default`.")
]


def _resource(kind: str, name: str) -> Resource:
    if kind == "topic":
        return Resource(ResourceType.TOPIC, name)
    if kind != "broker":
        raise typer.BadParameter(f"{kind!r} is neither topic nor broker")
    if name == "default":
        return Resource(ResourceType.BROKER, "")
    if not name.isdecimal() or not name.isascii():
        raise typer.BadParameter(f"{name!r} is neither a broker's id nor `default`")
    return Resource(ResourceType.BROKER, name)


@app.command("get")
@app.command("describe", hidden=True)
def get(
    kind: KindArgument,
    name: NameArgument,
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...")] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Include settings at their defaults.")
    ] = False,
    docs: Annotated[bool, typer.Option("--docs", help="Include what each setting means.")] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show settings and their sources; without a key, those not at their defaults."""
    resource = _resource(kind, name)
    with connect(bootstrap) as client:
        entries = describe_configs(client, resource, documentation=docs)
    known = {entry.name for entry in entries}
    for key in keys or ():
        if key not in known:
            raise typer.BadParameter(f"{resource} has no setting {key!r}")
    rows: list[tuple[Cell, ...]] = [
        (
            entry.name,
            "(secret)" if entry.is_sensitive else entry.value,
            entry.source.name,
            *((entry.documentation,) if docs else ()),
        )
        for entry in entries
        if (entry.name in keys if keys else show_all or entry.source in _SET_BY_SOMEBODY)
    ]
    columns = ("key", "value", "source", *(("documentation",) if docs else ()))
    write_rows(columns, rows, as_json=as_json)


@app.command("set")
def set_configs(
    kind: KindArgument,
    name: NameArgument,
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Change settings: all of them, or none if one is invalid."""
    _alter(_resource(kind, name), {**parse_pairs(pairs)}, bootstrap, as_json=as_json)


@app.command("unset")
def unset(
    kind: KindArgument,
    name: NameArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove overrides, so that the settings fall back to their defaults."""
    _alter(_resource(kind, name), dict.fromkeys(keys), bootstrap, as_json=as_json)


def _alter(
    resource: Resource, changes: dict[str, str | None], bootstrap: str, *, as_json: bool
) -> None:
    with connect(bootstrap) as client:
        alter_configs(client, resource, changes)
    for key, value in changes.items():
        if as_json:
            write_json({"key": key, "value": value})
        else:
            shown = "unset" if value is None else f"= {printable(value)}"
            write_line(f"{printable(str(resource))}: {printable(key)} {shown}")
    flush()
