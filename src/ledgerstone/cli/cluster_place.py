"""Which cluster a command is about: one that runs in a directory, or any by its brokers. Shell."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ledgerstone.cli.command_config import given_file
from ledgerstone.cli.options import parse_bootstrap, session_config
from ledgerstone.client.blocking import Client
from ledgerstone.client.properties import read_client_properties
from ledgerstone.client.security import client_security
from ledgerstone.client.session import SessionConfig
from ledgerstone.cluster.control import ask
from ledgerstone.dataclasses import dataclass, replace
from ledgerstone.storage.filenames import SECURE

DataOption = Annotated[
    Path | None, typer.Option("--data", help="The directory of a running `cluster up`.")
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT[,…]",
        envvar="LEDGERSTONE_BOOTSTRAP",
        help="Brokers of a cluster on other machines, instead of --data.",
    ),
]


@dataclass(frozen=True, slots=True)
class ClusterPlace:
    data: Path | None
    bootstrap: str | None

    @classmethod
    def of(cls, data: Path | None, bootstrap: str | None) -> "ClusterPlace":
        if data is None and bootstrap is None:
            raise typer.BadParameter("give --data, or --bootstrap for a cluster elsewhere")
        return cls(data, None if data is not None else bootstrap)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        if self.data is None:
            raise typer.BadParameter("only for a cluster of `cluster up`: give --data")
        return ask(self.data, request)

    def processes(self) -> dict[int, dict[str, Any]] | None:
        """By node id; None if the nodes run elsewhere."""
        if self.data is None:
            return None
        return {each["id"]: each for each in ask(self.data, {"do": "nodes"})["nodes"]}

    @contextmanager
    def client(self, *, without: int | None = None) -> Iterator[Client]:
        """`without` is a broker that is about to go."""
        if self.bootstrap is not None:
            servers = parse_bootstrap(self.bootstrap)
        else:
            known = self.processes() or {}
            servers = parse_bootstrap(
                ",".join(each["bootstrap"] for id_, each in known.items() if id_ != without)
            )
        with Client(servers, self._session()) as client:
            yield client

    def _session(self) -> SessionConfig:
        """A cluster of `cluster up --secure` has a file for its clients."""
        config = session_config()
        if self.data is None or given_file() is not None:
            return config
        file = self.data / SECURE / "client.properties"
        if not file.exists():
            return config
        return replace(config, security=client_security(read_client_properties(str(file))))
