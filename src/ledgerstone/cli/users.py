"""`ledgerstone users`: who can log in by SCRAM. Shell.

A password is asked for at the terminal, or is the first line of stdin; it is never an argument,
which everybody on the machine could read.
"""

import sys
from typing import Annotated

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, connect
from ledgerstone.cli.output import Cell, flush, write_line, write_rows
from ledgerstone.client.users import ScramUser, remove_user, scram_users, set_password
from ledgerstone.errors import ConfigError, LedgerstoneError
from ledgerstone.security.scram_keys import DEFAULT_ITERATIONS, SCRAM_BY_TEXT, ScramMechanism

app = new_app("List, add and remove users of SCRAM.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
MechanismOption = Annotated[
    list[str] | None,
    typer.Option("--mechanism", help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable. Both if none."),
]
IterationsOption = Annotated[
    int, typer.Option("--iterations", help="4096 to 16384: how costly it is to guess.")
]


class UserRefused(LedgerstoneError):
    """There is such a user already, or none."""


@app.command("list")
def list_users(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List users, with the mechanisms they can log in by."""
    with connect(bootstrap) as client:
        users = scram_users(client)
    rows: list[tuple[Cell, ...]] = [
        (user.name, each.text, count) for user in users for each, count in user.mechanisms.items()
    ]
    write_rows(("name", "mechanism", "iterations"), rows, as_json=as_json)
    flush()


@app.command("add")
def add(
    name: NameArgument,
    mechanism: MechanismOption = None,
    iterations: IterationsOption = DEFAULT_ITERATIONS,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Add a user. The password is asked for, or is the first line of stdin."""
    mechanisms = _mechanisms(mechanism)
    with connect(bootstrap) as client:
        known = _known(scram_users(client, name))
        for each in mechanisms:
            if each in known:
                raise UserRefused(f"{name} exists already; `users password` changes the password")
        password = _password()
        for each in mechanisms:
            set_password(client, name, password, each, iterations)
    write_line(f"{name} can log in by {_texts(mechanisms)}")
    flush()


@app.command("password")
def password(
    name: NameArgument,
    iterations: IterationsOption = DEFAULT_ITERATIONS,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Change a user's password, for every mechanism that the user has. Connections stay."""
    with connect(bootstrap) as client:
        known = _known(scram_users(client, name))
        if not known:
            raise UserRefused(f"there is no user {name}")
        text = _password()
        for each in known:
            set_password(client, name, text, each, iterations)
    write_line(f"{name} has a new password for {_texts(known)}")
    flush()


@app.command("remove")
def remove(
    name: NameArgument,
    mechanism: MechanismOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove a user. Connections that are logged in stay until they end or expire."""
    with connect(bootstrap) as client:
        known = _known(scram_users(client, name))
        wanted = [each for each in known if mechanism is None or each in _mechanisms(mechanism)]
        if not wanted:
            raise UserRefused(f"there is no user {name}")
        for each in wanted:
            remove_user(client, name, each)
    write_line(f"{name} cannot log in by {_texts(wanted)} any more")
    flush()


def _known(found: list[ScramUser]) -> list[ScramMechanism]:
    return [each for user in found for each in user.mechanisms]


def _mechanisms(given: list[str] | None) -> list[ScramMechanism]:
    texts = [text.upper() for text in given or SCRAM_BY_TEXT]
    for text in texts:
        if text not in SCRAM_BY_TEXT:
            raise ConfigError("--mechanism", text, f"must be one of {', '.join(SCRAM_BY_TEXT)}")
    return [SCRAM_BY_TEXT[text] for text in dict.fromkeys(texts)]


def _texts(mechanisms: list[ScramMechanism]) -> str:
    return " and ".join(each.text for each in mechanisms)


def _password() -> str:
    if sys.stdin.isatty():
        text: str = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        text = sys.stdin.readline().rstrip("\r\n")
    if not text:
        raise ConfigError("password", "", "must not be empty")
    return text
