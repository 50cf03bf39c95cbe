"""`ledgerstone quotas`: how much users, client ids and addresses may use. Shell."""

from contextlib import suppress
from typing import Annotated, Final

import typer

from ledgerstone.cli.admin_http import apis_of
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_pairs,
)
from ledgerstone.cli.output import Cell, flush, printable, write_json, write_line, write_rows
from ledgerstone.client.blocking import Client
from ledgerstone.client.quotas import alter_quotas, describe_quotas
from ledgerstone.errors import LedgerstoneError
from ledgerstone.quotas.entities import EntityType, QuotaEntity

app = new_app("Show, set and remove quotas of users, client ids and addresses.")

_DEFAULT: Final = "(default)"
_EVERYBODY: Final = "(any)"
_WAITED: Final = (
    "broker",
    "user",
    "client_id",
    "quota",
    "level",
    "limit",
    "used",
    "waits_ms",
    "times",
    "total_ms",
    "never_passes_bytes",
)

UserOption = Annotated[str | None, typer.Option("--user", help="Name of a user.")]
DefaultUserOption = Annotated[
    bool, typer.Option("--default-user", help="Users without a quota of their own.")
]
ClientIdOption = Annotated[str | None, typer.Option("--client-id", help="A client id.")]
DefaultClientIdOption = Annotated[
    bool, typer.Option("--default-client-id", help="Client ids without a quota of their own.")
]
IpOption = Annotated[str | None, typer.Option("--ip", help="An IP address.")]
DefaultIpOption = Annotated[
    bool, typer.Option("--default-ip", help="Addresses without a quota of their own.")
]


def _entity(
    *wishes: tuple[EntityType, str | None, bool],
) -> QuotaEntity:
    parts: dict[str, str | None] = {}
    for kind, name, is_default in wishes:
        if name is not None and is_default:
            raise typer.BadParameter(f"--{kind} and --default-{kind} exclude each other")
        if name is not None or is_default:
            parts[kind] = name
    if not parts:
        raise typer.BadParameter("name a user, a client id or an address, or a default of these")
    return QuotaEntity.of(parts)


@app.command("show")
@app.command("list", hidden=True)
def show(as_json: JsonOption = False, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Show the quotas that are set, and who had to wait for them, on which broker."""
    with connect(bootstrap) as client:
        found = describe_quotas(client)
        waited = _throttled(client)
    rows: list[tuple[Cell, ...]] = [
        (*_cells(entity), key, _number(value))
        for entity, values in sorted(found.items(), key=lambda item: str(item[0]))
        for key, value in sorted(values.items())
    ]
    write_rows(("user", "client_id", "ip", "quota", "limit"), rows, as_json=as_json)
    if waited and not as_json:
        write_line("\nhad to wait:")
    if waited:
        write_rows(_WAITED, waited, as_json=as_json)


def _throttled(client: Client) -> list[tuple[Cell, ...]]:
    """From every broker's HTTP API. Some brokers have none or do not advertise it: what is set is
    shown all the same."""
    found: list[tuple[Cell, ...]] = []
    with suppress(LedgerstoneError):
        for api in apis_of(client):
            found += [
                (
                    f"{api.endpoint.host}:{api.endpoint.port}",
                    _EVERYBODY if each["user"] is None else each["user"],
                    _EVERYBODY if each["client_id"] is None else each["client_id"],
                    each["quota"],
                    each["level"],
                    f"{each['limit']:.10g}",
                    f"{each['used']:.4g}",
                    each["waits_ms"],
                    each["times"],
                    each["total_ms"],
                    each["too_large"] or None,
                )
                for each in api.get("quotas")["throttled"]
            ]
    return found


def _cells(entity: QuotaEntity) -> tuple[Cell, ...]:
    parts = dict(entity.parts)
    return tuple((parts[kind] or _DEFAULT) if kind in parts else None for kind in EntityType)


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


@app.command("set")
def set_quotas(
    pairs: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientIdOption = None,
    default_client_id: DefaultClientIdOption = False,
    ip: IpOption = None,
    default_ip: DefaultIpOption = False,
    validate_only: Annotated[
        bool, typer.Option("--validate-only", help="Say whether it would be taken; set nothing.")
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set quotas: all of them, or none if one is invalid.

    Keys: producer_byte_rate, consumer_byte_rate (bytes a second, on each broker),
    request_percentage (of a broker's event loop), controller_mutation_rate (partitions a second);
    of an address connection_creation_rate (connections a second)."""
    entity = _entity(
        (EntityType.USER, user, default_user),
        (EntityType.CLIENT_ID, client_id, default_client_id),
        (EntityType.IP, ip, default_ip),
    )
    changes: dict[str, float | None] = {}
    for key, text in parse_pairs(pairs).items():
        try:
            changes[key] = float(text)
        except ValueError as error:
            raise typer.BadParameter(f"{key}: {text!r} is not a number") from error
    with connect(bootstrap) as client:
        alter_quotas(client, entity, changes, validate_only=validate_only)
    _write(entity, changes, as_json=as_json)


@app.command("remove")
def remove(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="All of them if none is named.")
    ] = None,
    user: UserOption = None,
    default_user: DefaultUserOption = False,
    client_id: ClientIdOption = None,
    default_client_id: DefaultClientIdOption = False,
    ip: IpOption = None,
    default_ip: DefaultIpOption = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove quotas."""
    entity = _entity(
        (EntityType.USER, user, default_user),
        (EntityType.CLIENT_ID, client_id, default_client_id),
        (EntityType.IP, ip, default_ip),
    )
    with connect(bootstrap) as client:
        if not keys:
            keys = sorted(describe_quotas(client).get(entity, {}))
        changes = dict.fromkeys(keys)
        if changes:
            alter_quotas(client, entity, changes)
    _write(entity, changes, as_json=as_json)


def _write(entity: QuotaEntity, changes: dict[str, float | None], *, as_json: bool) -> None:
    for key, value in changes.items():
        if as_json:
            write_json({"entity": dict(entity.parts), "quota": key, "limit": value})
        else:
            shown = "removed" if value is None else f"= {_number(value)}"
            write_line(f"{printable(str(entity))}: {printable(key)} {shown}")
    flush()
