"""Keys whose receipts are trusted here: pinned when a broker first gave one, kept in a file. Shell.

As with the hosts that `ssh` knows: the first time a broker hands out a receipt, the key it signs
with is written down under the name of its cluster; from then on no other key will do for it. The
file lies with the user's settings and not beside the receipts, since whoever forges one could put
a key beside it.
"""

import os
import re
from pathlib import Path
from typing import Any, Final, NamedTuple

import typer

from ledgerstone.errors import LedgerstoneError
from ledgerstone.system import SystemClock
from ledgerstone.time_text import iso_time

ENVIRONMENT: Final = "LEDGERSTONE_RECEIPT_KEYS"
_LINE: Final = re.compile(r"(\S{1,64}) ([0-9a-f]{64}) (\S{1,40})")


class KeysUnreadable(LedgerstoneError):
    """The file of pinned keys is there and cannot be read, or there is no place for it."""


class PinnedKey(NamedTuple):
    cluster_id: str
    public_key: bytes
    since: str


def keys_path() -> Path:
    given = os.environ.get(ENVIRONMENT)
    if given:
        return Path(given)
    try:
        settings = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    except RuntimeError as error:
        raise KeysUnreadable(f"there is no home for pinned keys; set {ENVIRONMENT}") from error
    return Path(settings) / "ledgerstone" / "receipt-keys"


def pinned(cluster_id: str) -> PinnedKey | None:
    """The first line of a cluster counts. A file that is not there pins nothing."""
    return next((each for each in _lines() if each.cluster_id == cluster_id), None)


def pin(content: dict[str, Any]) -> None:
    """The key of a receipt that its broker has just handed out. Problems are told, not raised: the
    receipt itself is there, and whoever checks it hears of them again."""
    cluster_id, public_key = str(content.get("cluster_id")), str(content.get("public_key"))
    line = f"{cluster_id} {public_key} {iso_time(SystemClock().now_ms())}"
    if _LINE.fullmatch(line) is None:
        return
    try:
        path, known = keys_path(), pinned(cluster_id)
        if known is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="ascii") as file:
                file.write(line + "\n")
    except (OSError, KeysUnreadable) as error:
        typer.echo(f"the broker's key was not written down: {error}", err=True)
        return
    if known is not None and known.public_key.hex() != public_key:
        typer.echo(
            f"WARNING: the broker signs with {public_key}, but {path} has "
            f"{known.public_key.hex()} for its cluster since {known.since}: its secrets were "
            "replaced, or this is another broker",
            err=True,
        )


def _lines() -> list[PinnedKey]:
    try:
        text = keys_path().read_text(encoding="ascii")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise KeysUnreadable(f"{keys_path()} cannot be read: {error}") from error
    found = [_LINE.fullmatch(line) for line in text.splitlines()]
    return [PinnedKey(each[1], bytes.fromhex(each[2]), each[3]) for each in found if each]
