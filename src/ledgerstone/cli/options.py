"""Options that commands share, parsers for their values, and the client. Shell."""

import re
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from ledgerstone.cli.command_config import given_bootstrap, given_security
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.session import SessionConfig

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_PORT: Final = 9092
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        envvar="LEDGERSTONE_BOOTSTRAP",
        help="Brokers to connect to first.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object per line.")]
TopicArgument = Annotated[str, typer.Argument(metavar="TOPIC")]
ConfigOption = Annotated[
    list[str],
    typer.Option("-c", "--config", metavar="KEY=VALUE", help="A setting; repeatable."),
]


def connect(bootstrap: str) -> Client:
    return Client(parse_bootstrap(given_bootstrap(bootstrap)), session_config())


def session_config() -> SessionConfig:
    """A user waits at a terminal: report an unreachable broker at once."""
    return SessionConfig(client_id="ledgerstone-cli", reach_timeout_ms=0, security=given_security())


def parse_bootstrap(text: str) -> list[Endpoint]:
    return [_parse_endpoint(part.strip()) for part in text.split(",")]


def _parse_endpoint(text: str) -> Endpoint:
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+))(?::([0-9]{1,5}))?", text)
    port = int(found[3]) if found and found[3] else DEFAULT_PORT
    if not found or not 0 < port < 65536:
        raise typer.BadParameter(f"{text!r} is not HOST:PORT")
    return Endpoint(found[1] or found[2], port)


def parse_pairs(pairs: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE")
        found[key] = value
    return found


def parse_bytes(text: str) -> bytes:
    """Text as UTF-8, or hex after 0x."""
    if not text.startswith("0x"):
        return text.encode("utf-8", "surrogateescape")
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not hex after 0x") from error


def parse_time(text: str, now_ms: int) -> int:
    """ISO 8601 (UTC unless it says otherwise), milliseconds since the epoch, or `2h` ago."""
    time_ms = _time_in(text, now_ms)
    if time_ms < 0:
        # Negative numbers are no times to a broker: -1 is the end of a log, -2 its start.
        raise typer.BadParameter(f"{text!r} is before 1970")
    return time_ms


def _time_in(text: str, now_ms: int) -> int:
    if re.fullmatch(r"[0-9]{1,18}", text):
        return int(text)
    ago = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h|d)", text)
    if ago:
        return now_ms - int(ago[1]) * _MS[ago[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        expected = "ISO 8601, milliseconds since the epoch, or a duration such as 2h"
        raise typer.BadParameter(f"{text!r} is not a time: {expected}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)
