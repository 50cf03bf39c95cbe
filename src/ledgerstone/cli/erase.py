"""`ledgerstone erase`: delete a key for good, and get a receipt. Shell.

The broker does the work, whether or not anybody waits. Exit codes: 0 asked for, or with --wait
done; 1 refused; 2 usage; 3 with --wait: no partition holds the key; 4 with --wait: not done, and
the last line says why.
"""

import getpass
import itertools
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, apis_of, topic_path
from ledgerstone.cli.clock import parse_duration
from ledgerstone.cli.key_options import (
    KeyArgument,
    KeyBase64Option,
    KeyFileOption,
    KeyHexOption,
    in_base64,
    need_key,
    read_key,
)
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
)
from ledgerstone.cli.output import flush, printable, show_time, write_json, write_line
from ledgerstone.erasure.receipt import canonical

NOWHERE_EXIT: Final = 3
NOT_DONE_EXIT: Final = 4
FIRST_POLL_S: Final = 0.02
LONGEST_POLL_S: Final = 2.0
RESIDUE_FOUND: Final = "residue found"
KEYS_PER_REQUEST: Final = 200
BYTES_PER_REQUEST: Final = 1 << 20


def erase(
    topic: TopicArgument,
    key: KeyArgument = None,
    by: Annotated[
        str | None, typer.Option(help="Deadline from now, as in 30d; alarms come before it.")
    ] = None,
    after: Annotated[
        str | None, typer.Option(help="Wait so long, as in 7d; until then it can be cancelled.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why; kept in the receipt, so not the key.")] = "",
    by_user: Annotated[
        str | None, typer.Option("--by-user", help="Who asks; the user of this system.")
    ] = None,
    verifier: Annotated[
        list[str] | None,
        typer.Option(help="A downstream verifier to wait for; may be repeated. Default: installed"),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show the stages until it is done.")] = False,
    receipt: Annotated[
        Path | None,
        typer.Option(help="Wait, and write the receipt here; several keys: into a directory."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds to wait at most; the broker goes on.", min=0)
    ] = None,
    key_hex: KeyHexOption = None,
    key_base64: KeyBase64Option = None,
    key_file: KeyFileOption = None,
    keys_from: Annotated[
        Path | None, typer.Option(help="A file with a key on each line: one batch for all.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Erase a key from a compacted topic: tombstones, both passes, a scan of every file, a receipt.

    Evidence of technical deletion, not legal advice."""
    if keys_from is None:
        keys = [need_key(key, key_hex, key_base64, key_file)]
    elif read_key(key, key_hex, key_base64, key_file) is None:
        keys = _lines(keys_from)
    else:
        raise typer.BadParameter("either a key or --keys-from")
    body: dict[str, Any] = {
        "reason": reason,
        "requested_by": getpass.getuser() if by_user is None else by_user,
        "after_ms": 0 if after is None else parse_duration(after),
        "within_ms": None if by is None else parse_duration(by),
        "verifiers": verifier,
    }
    with connect(bootstrap) as client:
        client.topic(topic)
        api = apis_of(client)[0]
    asked = _ask(api, topic, keys, body)
    if not wait and receipt is None:
        for each in asked:
            _say_asked(each, as_json=as_json)
        flush()
        return
    deadline_s = None if timeout is None else time.monotonic() + timeout
    ended = [
        _Waiting(api, each["id"], deadline_s, quiet=as_json or len(asked) > 1).run()
        for each in asked
    ]
    for each in ended:
        _say_ended(api, each, receipt, is_one=len(ended) == 1, as_json=as_json)
    flush()
    code = max(exit_code(each) for each in ended)
    if code:
        raise typer.Exit(code)


def _ask(
    api: AdminApi, topic: str, keys: list[bytes], body: dict[str, Any]
) -> list[dict[str, Any]]:
    """In requests that a broker takes: not too many keys, nor too many bytes of them."""
    asked: list[dict[str, Any]] = []
    while keys:
        sizes = itertools.accumulate(len(each) for each in keys[:KEYS_PER_REQUEST])
        count = max(sum(1 for size in sizes if size <= BYTES_PER_REQUEST), 1)
        some, keys = keys[:count], keys[count:]
        content = {**body, "keys": [in_base64(each) for each in some]}
        asked += api.post(topic_path(topic, "erasures"), content)["erasures"]
    return asked


def _lines(path: Path) -> list[bytes]:
    try:
        keys = path.read_bytes().splitlines()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--keys-from") from error
    if not keys:
        raise typer.BadParameter(f"{path} has no line", param_hint="--keys-from")
    return keys


def exit_code(erasure: dict[str, Any]) -> int:
    if erasure["stage"] == "not_found":
        return NOWHERE_EXIT
    return 0 if erasure["stage"] == "receipted" else NOT_DONE_EXIT


class _Waiting:
    """Asks again and again; where the clock is virtual, moves it to the next due moment."""

    def __init__(
        self, api: AdminApi, erasure_id: str, deadline_s: float | None, *, quiet: bool
    ) -> None:
        self._api = api
        self._id = erasure_id
        self._deadline_s = deadline_s
        self._quiet = quiet
        self._is_virtual = bool(api.get("clock")["virtual"])
        self._stages_shown = 0
        self._said: str | None = None

    def run(self) -> dict[str, Any]:
        pause_s = FIRST_POLL_S
        while True:
            erasure = self._api.get(f"erasures/{self._id}")
            if self._show(erasure):
                pause_s = FIRST_POLL_S
            if erasure["is_over"] or erasure["status"] == RESIDUE_FOUND:
                return erasure
            if self._deadline_s is not None and time.monotonic() > self._deadline_s:
                return erasure
            if self._is_virtual and self._move_clock(erasure):
                pause_s = FIRST_POLL_S
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.3, LONGEST_POLL_S)

    def _move_clock(self, erasure: dict[str, Any]) -> bool:
        until_ms, now_ms = erasure["waits_until_ms"], erasure["now_ms"]
        if until_ms is None or until_ms <= now_ms:
            return False
        self._api.post("clock/advance", {"ms": until_ms - now_ms})
        return True

    def _show(self, erasure: dict[str, Any]) -> bool:
        """True where something is new."""
        stages = erasure["stages"][self._stages_shown :]
        self._stages_shown += len(stages)
        is_new = bool(stages)
        if self._quiet:
            return is_new
        for each in stages:
            write_line(f"{show_time(each['at_ms'])}  {each['stage']}")
            self._said = None
        waits_for = erasure["waits_for"]
        if erasure["waits_until_ms"] is not None and waits_for not in (None, self._said):
            write_line(f"  waits: {printable(waits_for)}")
            self._said, is_new = waits_for, True
        flush()
        return is_new


def _say_asked(erasure: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(erasure)
        return
    due = f", due {show_time(erasure['due_ms'])}" if erasure["stage"] == "scheduled" else ""
    write_line(
        f"{erasure['id']} {erasure['stage']}{due}; `ledgerstone erasures` tells how far it is"
    )


def _say_ended(
    api: AdminApi,
    erasure: dict[str, Any],
    receipt: Path | None,
    *,
    is_one: bool,
    as_json: bool,
) -> None:
    written: Path | None = None
    if erasure["has_receipt"] and receipt is not None:
        written = receipt / f"{erasure['id']}.json" if receipt.is_dir() or not is_one else receipt
        write_receipt(api, erasure["id"], written)
    if as_json:
        write_json({**erasure, "receipt_file": None if written is None else str(written)})
        return
    write_line(f"{erasure['id']} {printable(verdict(erasure))}")
    if written is not None:
        write_line(f"the receipt is in {written}")


def verdict(erasure: dict[str, Any]) -> str:
    """Where it stands, in one line."""
    if erasure["stage"] == "receipted":
        later = sum(each["records"] for each in erasure["recreated"])
        more = (
            f"; the key was written again since, {later} records are not covered" if later else ""
        )
        missed = "" if erasure["met_deadline"] is not False else "; the deadline was MISSED"
        return f"erased, receipt issued{missed}{more}"
    if erasure["note"]:
        return f"{erasure['stage']}: {erasure['note']}"
    return f"{erasure['status']}: {erasure['waits_for'] or 'it goes on'}"


def write_receipt(api: AdminApi, erasure_id: str, path: Path) -> None:
    try:
        path.write_bytes(canonical(api.get(f"erasures/{erasure_id}/receipt")))
    except OSError as error:
        raise AdminCallFailed(f"the receipt cannot be written: {error}") from error
