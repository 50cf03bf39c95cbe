"""`ledgerstone up`: one node in the foreground, alone or of a cluster. Grade S."""

import asyncio
import gc
import json
import logging
import os
import resource
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledgerstone.cli.log_format import formatter
from ledgerstone.clock import Clock
from ledgerstone.config.broker import (
    BrokerConfig,
    load_broker_config,
    secrets_of,
    secrets_of_command_line,
)
from ledgerstone.core_dumps import forbid_core_dumps
from ledgerstone.errors import ConfigError, NotPrivate, StartFailed, StartStopped
from ledgerstone.private_files import read_operators, write_private
from ledgerstone.workers.child import die_with_parent

if TYPE_CHECKING:
    from ledgerstone.cli.secure_setup import SecureSetup
    from ledgerstone.server.bootstrap import RunningBroker

_EXIT_REFUSED = 2
DEFAULT_ADDRESS: Final = "127.0.0.1:9092"
_MOST_BYTES: Final = 1 << 20


def up(
    data: Annotated[Path | None, typer.Option(help="Log directory (log.dirs).")] = None,
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT for clients; port 0: any free.")
    ] = None,
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="For development: TLS with an authority of its own, a login for `admin`, ACLs; "
            "--http is https. Files for clients are in DATA/secure.",
        ),
    ] = False,
    http: Annotated[str | None, typer.Option(help="HOST:PORT for web page, API, metrics.")] = None,
    http_readonly: Annotated[
        bool, typer.Option("--http-readonly", help="Refuse changes by web page and HTTP API.")
    ] = False,
    ready_file: Annotated[
        Path | None, typer.Option(help="JSON file written when the broker is ready.")
    ] = None,
    config: Annotated[
        list[Path] | None,
        typer.Option(help="A server.properties file. Of several, later ones go before."),
    ] = None,
    override: Annotated[
        list[str] | None, typer.Option("-c", help="key=value; overrides file and environment.")
    ] = None,
    clock: Annotated[
        str, typer.Option(help="real, or virtual: `ledgerstone clock advance` moves it. For tests.")
    ] = "real",
    log_format: Annotated[str, typer.Option(help="text or json.")] = "text",
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
    supervisor: Annotated[
        int | None, typer.Option(hidden=True, help="End with the process of this id, our parent.")
    ] = None,
) -> None:
    """Start a broker. Listens on 127.0.0.1:9092 by default; stops on SIGTERM, at once on a second
    one. With process.roles in the configuration it is a node of a cluster: it says what its start
    waits for, and a stop hands over what it leads."""
    if supervisor is not None:
        die_with_parent(supervisor)
    _check_choices(log_format, clock)
    _configure_logging(log_format, log_level)
    overrides = list(override or [])
    if listen is not None and not secure:
        overrides.append(f"listeners=PLAINTEXT://{listen}")
    if data is not None:
        overrides.append(f"log.dirs={data}")
    if http is not None:
        http = f"https://{http}" if secure and "://" not in http else http
        overrides.append(f"ledgerstone.http.listener={http}")
    if http_readonly:
        overrides.append("ledgerstone.http.readonly=true")
    _set_limits()
    try:
        setup = _secure_setup(data, listen or DEFAULT_ADDRESS, http) if secure else None
        loaded = _load(config or [], overrides, () if setup is None else setup.overrides)
        asyncio.run(_serve(loaded, ready_file, setup, is_virtual=clock == "virtual"))
    except ConfigError as error:
        typer.echo(f"ledgerstone: {error}", err=True)
        raise typer.Exit(_EXIT_REFUSED) from error


def _load(files: list[Path], overrides: list[str], ours: Sequence[str]) -> BrokerConfig:
    """`ours` are behind the user's own, which so go before."""
    log = logging.getLogger(__name__)
    for name in secrets_of_command_line(overrides):
        log.warning(
            "config %s: given with -c, every user of this machine can read it in the list of "
            "processes; put it into a file of mode 0600 and name that with --config",
            name,
        )
    loaded = load_broker_config(
        properties=[_read_properties(path) for path in files],
        environment=os.environ,
        overrides=[*ours, *overrides],
    )
    for warning in loaded.warnings:
        log.warning("config %s", warning)
    return loaded.config


def _read_properties(path: Path) -> bytes:
    try:
        content, found = read_operators(str(path), _MOST_BYTES)
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--config") from error
    except NotPrivate as error:
        raise ConfigError("--config", str(path), error.reason) from error
    if len(content) > _MOST_BYTES:
        raise ConfigError("--config", str(path), f"is larger than {_MOST_BYTES} bytes")
    if secrets := secrets_of(content):
        remark = found.remark(", ".join(secrets))
        if remark is not None:
            logging.getLogger(__name__).warning("config %s", remark)
    return content


def _check_choices(log_format: str, clock: str) -> None:
    if log_format not in ("text", "json"):
        raise typer.BadParameter("must be text or json", param_hint="--log-format")
    if clock not in ("real", "virtual"):
        raise typer.BadParameter("must be real or virtual", param_hint="--clock")


def _secure_setup(data: Path | None, listen: str, http: str | None) -> "SecureSetup":
    if data is None:
        raise ConfigError("--data", "", "must be set with --secure: keys are kept below it")
    from ledgerstone.cli.secure_setup import set_up
    from ledgerstone.system import SystemClock, SystemDice

    return set_up(data, listen, SystemClock(), SystemDice(), http=http)


def _announce(running: "RunningBroker", token: str, setup: "SecureSetup | None") -> None:
    line = f"ledgerstone ready bootstrap={running.bootstrap}"
    if running.http_address is not None:
        line += f" http={running.http_address}"
    typer.echo(line)
    if running.http_address is not None:
        # Printed only here, not logged: this address grants changes, and logs are kept and copied.
        typer.echo(f"ledgerstone page {running.http_address}/?token={token}")
    if setup is not None:
        # The password is shown when it is made, and is in a file from then on.
        shown = setup.password if setup.is_new else "as before"
        typer.echo(f"ledgerstone secure user=admin password={shown} files={setup.directory}")
        if running.http_address is not None:
            typer.echo(
                f"ledgerstone login {running.http_address}/login as admin; "
                f"browsers trust the page once they trust {setup.directory / 'ca.pem'}"
            )
    sys.stdout.flush()


def _waits_for(what: str) -> None:
    """The log has it, too, unless it is kept short."""
    if not logging.getLogger().isEnabledFor(logging.INFO):
        typer.echo(f"ledgerstone waits for {what}", err=True)


async def _serve(
    config: BrokerConfig,
    ready_file: Path | None,
    setup: "SecureSetup | None",
    *,
    is_virtual: bool,
) -> None:
    # A start makes no garbage.
    gc.disable()
    # Imported here: `ledgerstone --help` must not load a broker.
    from ledgerstone.server.bootstrap import start_broker
    from ledgerstone.server.movable_clock import MovableClock
    from ledgerstone.server.opening import Surroundings
    from ledgerstone.system import OsFilesystem, SystemClock, SystemDice, boot_id
    from ledgerstone.web.access import Access
    from ledgerstone.web.site import PageSite

    clock: Clock = SystemClock()
    if is_virtual:
        clock = MovableClock(clock)
        logging.getLogger(__name__).warning(
            "THE CLOCK IS VIRTUAL: anyone on this machine can advance it, and retention and "
            "deletes follow it. Do not keep data here that you need."
        )
    world = Surroundings(fs=OsFilesystem(), clock=clock, dice=SystemDice(), boot_id=boot_id())
    stopping, hurrying = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        (hurrying if stopping.is_set() else stopping).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    access = Access.from_dice(world.dice)
    try:
        running = await start_broker(
            config,
            world,
            partial(PageSite, access),
            is_stopping=stopping.is_set,
            on_wait=_waits_for,
        )
    except StartStopped as stopped:
        typer.echo(f"ledgerstone: {stopped}", err=True)
        return
    except StartFailed as failed:
        typer.echo(f"ledgerstone: {failed}", err=True)
        raise typer.Exit(1) from failed
    if setup is not None:
        setup.write_client_files(running.bootstrap)
    _spare_the_collector()
    facts: dict[str, object] = {
        "pid": os.getpid(),
        "bootstrap": running.bootstrap,
        "http": running.http_address,
        "token": access.token,
    }
    if ready_file is not None:
        _write_ready_file(ready_file, facts)
    _announce(running, access.token, setup)
    await stopping.wait()
    await running.stop(hurries=hurrying.is_set)
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)


def _write_ready_file(path: Path, facts: dict[str, object]) -> None:
    """Written atomically, since others wait for it; private, since it holds the token."""
    write_private(str(path), json.dumps(facts).encode() + b"\n")


def _spare_the_collector() -> None:
    """Objects made at start live as long as the process. Scanning them in every collection would
    cost a tenth of every request."""
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)


def _set_limits() -> None:
    """Each segment and each connection needs a descriptor; the soft limit is often only 1024."""
    forbid_core_dumps(os.environ)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _configure_logging(log_format: str, log_level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter(log_format))
    try:
        logging.basicConfig(level=log_level.upper(), handlers=[handler])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--log-level") from error
