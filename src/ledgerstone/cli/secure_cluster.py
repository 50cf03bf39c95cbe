"""`ledgerstone cluster up --secure`: nodes that trust only each other, and clients that log in.
Grade S.

Every connection is SASL_SSL. Nodes log in as `node`, and show their certificate to controllers as
well; clients log in as `admin`, or as users that admin makes. The nodes of one machine share a key.
"""

from pathlib import Path
from typing import Final

from ledgerstone.cli.secure_setup import (
    ADMIN,
    AUTHORIZER,
    LISTENER,
    kept_password,
    prepare_keys,
    write_client_files,
)
from ledgerstone.clock import Clock, Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.security.jaas import PLAIN_MODULE
from ledgerstone.storage.filenames import SECURE

_NODE: Final = "node"
_CONTROLLER: Final = "controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureCluster:
    """`is_new`: the password of admin was made just now, and should be shown."""

    directory: Path
    password: str = field(repr=False)
    node_password: str = field(repr=False)
    is_new: bool

    @property
    def settings(self) -> dict[str, str]:
        """Of every node."""
        own = f'username="{_NODE}" password="{self.node_password}"'
        nodes = f'{PLAIN_MODULE} required {own} user_{_NODE}="{self.node_password}"'
        everybody = f'{nodes} user_{ADMIN}="{self.password}";'
        return {
            "listener.security.protocol.map": f"{LISTENER}:{LISTENER},CONTROLLER:{LISTENER}",
            "inter.broker.listener.name": LISTENER,
            "ssl.keystore.location": str(self.directory / "broker.pem"),
            "ssl.truststore.location": str(self.directory / "ca.pem"),
            f"listener.name.{_CONTROLLER}.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
            f"listener.name.{_CONTROLLER}.sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": everybody,
            f"listener.name.{_CONTROLLER}.plain.sasl.jaas.config": f"{nodes};",
            "authorizer.class.name": AUTHORIZER,
            "super.users": f"User:{ADMIN};User:{_NODE}",
        }

    def write_client_files(self, bootstrap: str) -> None:
        write_client_files(self.directory, bootstrap, self.password)


def is_secure(data: Path) -> bool:
    """Whether the cluster in a directory was made with `--secure`."""
    return (data / SECURE / "node.password").exists()


def set_up_cluster(data: Path, host: str, clock: Clock, dice: Dice) -> SecureCluster:
    directory = data.absolute() / SECURE
    prepare_keys(directory, [host], clock.now_ms())
    node_password, _ = kept_password(directory / "node.password", dice)
    password, is_new = kept_password(directory / "admin.password", dice)
    return SecureCluster(
        directory=directory, password=password, node_password=node_password, is_new=is_new
    )
