"""Commands whose modules are loaded when they run. Shell.

`ledgerstone --help` shows one line per command and needs none of their code. Loading all of it
takes longer than most commands run.
"""

import sys
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

# Loaded by commands that talk to brokers.
_TALKS: Final = ("ledgerstone.cli.options", "ledgerstone.cli.cluster_place")


class CommandPlace(NamedTuple):
    """Where a command lives: a Typer app or a function in a module of `ledgerstone.cli`."""

    module: str
    attribute: str
    help: str


COMMANDS: Final = {
    "demo": CommandPlace("demo", "demo", "Show everything at work on a git history."),
    "up": CommandPlace("up", "up", "Start a broker."),
    "cluster": CommandPlace(
        "cluster", "app", "Run a cluster on this machine; add, drain and remove brokers."
    ),
    "format": CommandPlace(
        "format", "format_directory", "Format the log directory of a node of a quorum."
    ),
    "quorum": CommandPlace("quorum", "app", "Show, add and remove voters of the metadata quorum."),
    "topics": CommandPlace("topics", "app", "List, create, describe, alter and delete topics."),
    "produce": CommandPlace("produce", "produce", "Write records and tombstones."),
    "consume": CommandPlace("consume", "consume", "Read records."),
    "state": CommandPlace("state", "state", "Show a topic's keys: counts, checksum, values."),
    "pipeline": CommandPlace("pipeline", "app", "Keep tables in step with topics; snapshots."),
    "groups": CommandPlace("groups", "app", "List and describe groups, move their offsets."),
    "transactions": CommandPlace(
        "transactions", "app", "List, describe and abort transactions; find hanging ones."
    ),
    "users": CommandPlace("users", "app", "List, add and remove users of SCRAM."),
    "acls": CommandPlace("acls", "app", "List, add and remove ACLs."),
    "audit": CommandPlace("audit", "app", "Show and verify the audit log."),
    "quotas": CommandPlace("quotas", "app", "Show, set and remove quotas."),
    "configs": CommandPlace("configs", "app", "Show and change topic and broker settings."),
    "compact": CommandPlace(
        "compact", "compact", "Compact a topic now, and show what was dropped."
    ),
    "why": CommandPlace("why", "why", "Explain what keeps records on disk, and until when."),
    "tombstones": CommandPlace(
        "tombstones", "app", "Show pending tombstones, and groups that miss deletes."
    ),
    "where": CommandPlace("where", "where", "Find every record of a key, and the file it is in."),
    "erase": CommandPlace("erase", "erase", "Erase a key for good, and get a receipt."),
    "erasures": CommandPlace("erasures", "app", "List erasures and what blocks them; cancel one."),
    "receipt": CommandPlace("receipt", "receipt", "Show the evidence of an erasure."),
    "verify-receipt": CommandPlace(
        "verify_receipt", "verify_receipt", "Check a receipt's signature."
    ),
    "cleaner": CommandPlace("cleaner", "app", "Show cleaning passes and how clean topics are."),
    "clock": CommandPlace("clock", "app", "Show the broker's clock; advance it if virtual."),
    "damage": CommandPlace("damage", "app", "Show damaged files; acknowledge losses."),
    "dump": CommandPlace("dump", "dump", "Show the contents of a log's files."),
}


def new_app(help_text: str | None = None) -> typer.Typer:
    """A Typer app with the settings that all our commands share."""
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


class LazyCommand(TyperCommand):
    """Stands in for a command until it is run or its help is shown."""

    def __init__(self, name: str, place: CommandPlace) -> None:
        super().__init__(name, help=place.help)
        self._place = place

    # The argument types belong to the click that typer bundles.
    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:  # noqa: ANN401
        return self._load().make_context(info_name, args, parent=parent, **extra)

    def _load(self) -> Any:  # noqa: ANN401
        module = import_module(f"ledgerstone.cli.{self._place.module}")
        found = getattr(module, self._place.attribute)
        app = found
        if not isinstance(found, typer.Typer):
            app = new_app()
            app.command(self.name)(found)
        command = typer.main.get_command(app)
        if any(each in sys.modules for each in _TALKS):
            from ledgerstone.cli.command_config import add_command_config

            add_command_config(command)
        return command


class LazyGroup(TyperGroup):
    """Has every command of COMMANDS, in that order."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401
        super().__init__(**settings)
        for name, place in COMMANDS.items():
            self.commands[name] = LazyCommand(name, place)
