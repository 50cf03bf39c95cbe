"""`--command-config`: properties of the client, for every command that talks to a broker. Shell.

As with Kafka's tools the file has a client's properties, `security.protocol` first of all. The
option is added to every command that takes a broker's address, so that no command can lack it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import typer
from typer.core import TyperOption

from ledgerstone.client.properties import VARIABLE, read_client_properties
from ledgerstone.client.security import ClientSecurity, client_security

_META: Final = "ledgerstone.command_config"
# Parameters that name a broker.
_ADDRESSES: Final = ("bootstrap", "controllers", "broker")


def add_command_config(command: Any) -> None:  # noqa: ANN401 - click's types are typer's own
    """To a command, or to all commands of a group."""
    for each in getattr(command, "commands", {}).values():
        add_command_config(each)
    if any(parameter.name in _ADDRESSES for parameter in command.params):
        option = TyperOption(
            param_decls=["--command-config"],
            type=str,
            metavar="FILE",
            envvar=VARIABLE,
            show_envvar=True,
            expose_value=False,
            callback=_note,
            help="Properties of the client by Kafka's names: security.protocol, ssl.*, sasl.*.",
        )
        command.params.append(option)


def _note(context: typer.Context, _: Any, value: str | None) -> None:  # noqa: ANN401
    if value and not context.resilient_parsing:
        context.meta[_META] = value


def given_properties() -> Mapping[str, str]:
    """Of the command that runs; none outside of one."""
    context = _context()
    path = None if context is None else context.meta.get(_META)
    return {} if path is None else read_client_properties(path)


def given_file() -> str | None:
    """The file itself, for work that is done elsewhere."""
    context = _context()
    path: str | None = None if context is None else context.meta.get(_META)
    return path if path is None else str(Path(path).absolute())


def given_security() -> ClientSecurity:
    return client_security(given_properties())


def given_bootstrap(bootstrap: str) -> str:
    """`bootstrap.servers` of the file, unless the command names others."""
    context = _context()
    source = None if context is None else context.get_parameter_source("bootstrap")
    if source is not None and source.name == "DEFAULT":
        return given_properties().get("bootstrap.servers", bootstrap)
    return bootstrap


def _context() -> Any:  # noqa: ANN401
    from typer._click.globals import get_current_context

    return get_current_context(silent=True)
