"""The directory of a cluster on one machine. Shell.

cluster.json            the layout
lock                    held by the `cluster up` that runs it
control                 its socket, for the other commands; only its owner may connect
node-N/server.properties    made with the node, then yours to change
node-N/data             the node's log directory
"""

import fcntl
import json
import os
from pathlib import Path
from typing import Final

from ledgerstone.cluster.layout import ClusterLayout, LayoutRefused, NodePlace, layout_from_json
from ledgerstone.config.broker import load_broker_config
from ledgerstone.errors import LedgerstoneError
from ledgerstone.private_files import write_private
from ledgerstone.server.formatting.plan import FormatOptions, plan_format
from ledgerstone.server.formatting.writing import write_format
from ledgerstone.storage.filenames import META_PROPERTIES
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice

LAYOUT: Final = "cluster.json"
CONTROL: Final = "control"
_LOCK: Final = "lock"
_HEAD: Final = "# Made by `ledgerstone cluster`. Yours to change, except ids, roles and ports.\n"


class DirectoryInUse(LedgerstoneError):
    """Another `cluster up` runs this cluster."""


class ClusterDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    # -- the layout ---------------------------------------------------------------------------

    def load(self) -> ClusterLayout | None:
        """None if there is no cluster here yet."""
        file = self.path / LAYOUT
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        try:
            return layout_from_json(json.loads(text))
        except (LayoutRefused, ValueError) as error:
            raise LayoutRefused(f"{file}: {error}") from error

    def check_new(self) -> None:
        """Before the first layout: a log directory is not to be mixed with a cluster."""
        if (self.path / META_PROPERTIES).exists():
            raise LayoutRefused(f"{self.path} is the log directory of a broker, not of a cluster")

    def save(self, layout: ClusterLayout) -> None:
        text = json.dumps(layout.to_json(), indent=2) + "\n"
        write_private(str(self.path / LAYOUT), text.encode())

    # -- nodes --------------------------------------------------------------------------------

    def home_of(self, node: NodePlace) -> Path:
        return self.path / node.name

    def data_of(self, node: NodePlace) -> Path:
        return self.home_of(node) / "data"

    def properties_of(self, node: NodePlace) -> Path:
        return self.home_of(node) / "server.properties"

    def ready_file_of(self, node: NodePlace) -> Path:
        return self.home_of(node) / "ready.json"

    def prepare(self, layout: ClusterLayout, node: NodePlace, *, joins: bool = False) -> bool:
        """Writes what the node lacks; True if it was formatted. `joins` a cluster that has metadata
        already."""
        self.home_of(node).mkdir(mode=0o700, exist_ok=True)
        properties = self.properties_of(node)
        if not properties.exists():
            settings = layout.settings_of(node, str(self.data_of(node)))
            lines = "".join(f"{key}={value}\n" for key, value in settings.items())
            write_private(str(properties), (_HEAD + lines).encode())
        config = load_broker_config(
            properties=properties.read_bytes(), overrides=[f"log.dirs={self.data_of(node)}"]
        ).config
        is_first_voter = node.is_controller and not joins
        options = FormatOptions(
            cluster_id=layout.cluster_id,
            initial_controllers=layout.initial_controllers if is_first_voter else None,
            has_no_initial_controllers=not is_first_voter,
        )
        plan = plan_format(config, options, SystemDice())
        return write_format(OsFilesystem(), SystemClock(), plan, ignore_formatted=True)

    # -- one owner ----------------------------------------------------------------------------

    def lock(self) -> int:
        """Held until its descriptor is closed, by an end of the process at the latest."""
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise DirectoryInUse(
                f"{self.path} is run by another `ledgerstone cluster up`"
            ) from error
        return descriptor
