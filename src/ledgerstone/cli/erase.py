"""`ledgerstone erase`: delete a key for good, and get a receipt. Shell.

The broker does the work, whether or not anybody waits. Exit codes: 0 asked for, or with --wait
done; 1 refused; 2 usage; 3 with --wait: no partition holds the key; 4 with --wait: not done, and
the last line says why.
"""

import getpass
import itertools
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer

from ledgerstone.cli.admin_http import (
    AdminApi,
    AdminCallFailed,
    TokenOption,
    cluster_api,
    topic_path,
)
from ledgerstone.cli.clock import parse_duration
from ledgerstone.cli.key_options import (
    KeyArgument,
    KeyBase64Option,
    KeyFileOption,
    KeyHexOption,
    in_base64,
    key_to_erase,
    read_key,
)
from ledgerstone.cli.keys_file import PAIRS_FILE, Pairs, check_target, read_keys
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
)
from ledgerstone.cli.output import (
    bytes_field,
    flush,
    printable,
    show_bytes,
    show_time,
    write_json,
    write_line,
)
from ledgerstone.cli.receipt_keys import pin
from ledgerstone.erasure.receipt import canonical

NOWHERE_EXIT: Final = 3
NOT_DONE_EXIT: Final = 4
FIRST_POLL_S: Final = 0.02
LONGEST_POLL_S: Final = 2.0
SAID_AFTER_S: Final = 2.0
RESIDUE_FOUND: Final = "residue found"
KEYS_PER_REQUEST: Final = 200
BYTES_PER_REQUEST: Final = 1 << 20

VerifierOption = Annotated[
    list[str] | None,
    typer.Option(help="A downstream verifier to wait for; may be repeated. Default: installed"),
]
OutputsWaitOption = Annotated[
    str | None,
    typer.Option(
        help="How long the receipt waits for outputs, as in 7d; then it names them as not "
        "verified. Default: verifiers for ever, pipelines that missed the tombstone a day"
    ),
]
TimeoutOption = Annotated[
    float | None, typer.Option(help="Seconds to wait at most; the broker goes on.", min=0)
]
WaitOption = Annotated[bool, typer.Option("--wait", help="Show the stages until it is done.")]
AbortOpenOption = Annotated[
    bool,
    typer.Option(
        "--abort-open", help="Abort open transactions that hold it up; fences their producers."
    ),
]


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
    verifier: VerifierOption = None,
    outputs_wait: OutputsWaitOption = None,
    abort_open: AbortOpenOption = False,
    wait: WaitOption = False,
    receipt: Annotated[
        Path | None,
        typer.Option(help="Wait, and write the receipt here; several keys: into a directory."),
    ] = None,
    timeout: TimeoutOption = None,
    key_hex: KeyHexOption = None,
    key_base64: KeyBase64Option = None,
    key_file: KeyFileOption = None,
    keys_from: Annotated[
        Path | None,
        typer.Option(
            help="A file with a key on each line: one batch for all, "
            "ids and keys are paired in the output and beside the receipts."
        ),
    ] = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Erase a key from a compacted topic: tombstones, both passes, a scan of every file, a receipt.

    Evidence of technical deletion, not legal advice."""
    is_many = keys_from is not None
    if keys_from is None:
        keys = [key_to_erase(key, key_hex, key_base64, key_file)]
    elif read_key(key, key_hex, key_base64, key_file) is None:
        keys = read_keys(keys_from)
    else:
        raise typer.BadParameter("either a key or --keys-from")
    if receipt is not None:
        check_target(receipt, is_directory=is_many or receipt.is_dir())
    body: dict[str, Any] = {
        "reason": reason,
        "requested_by": getpass.getuser() if by_user is None else by_user,
        "after_ms": 0 if after is None else parse_duration(after),
        "within_ms": None if by is None else parse_duration(by),
        "verifiers": verifier,
        "abort_open": abort_open,
        "outputs_wait_ms": None if outputs_wait is None else parse_duration(outputs_wait),
    }
    with connect(bootstrap) as client:
        client.topic(topic)
        api = cluster_api(client, token)
    pairs = Pairs(receipt) if is_many and receipt is not None else None
    asking = _ask(api, topic, keys, body, pairs)
    if not wait and receipt is None:
        _say_asked(asking, is_many=is_many, as_json=as_json)
        return
    deadline_s = None if timeout is None else time.monotonic() + timeout
    code = _await_all(api, asking, deadline_s, receipt, is_many=is_many, as_json=as_json)
    if code:
        raise typer.Exit(code)


class Asked(NamedTuple):
    """A request that the broker has taken, and for which key."""

    erasure: dict[str, Any]
    key: bytes


def _ask(
    api: AdminApi, topic: str, keys: list[bytes], body: dict[str, Any], pairs: Pairs | None
) -> Iterator[Asked]:
    """In requests that a broker takes: not too many keys, nor too many bytes of them."""
    warnings: dict[str, None] = {}
    while keys:
        sizes = itertools.accumulate(len(each) for each in keys[:KEYS_PER_REQUEST])
        count = max(sum(1 for size in sizes if size <= BYTES_PER_REQUEST), 1)
        some, keys = keys[:count], keys[count:]
        content = {**body, "keys": [in_base64(each) for each in some]}
        answer = api.post(topic_path(topic, "erasures"), content)
        if pairs is not None:
            _note(pairs, answer["erasures"], some)
        warning = answer.get("warning")
        if warning and not warnings:
            warnings[warning] = None
            typer.echo(f"WARNING: {printable(warning)}", err=True)
        yield from map(Asked, answer["erasures"], some)


def _note(pairs: Pairs, erasures: list[dict[str, Any]], keys: list[bytes]) -> None:
    try:
        pairs.add(erasures, keys)
    except OSError as error:
        # They are asked for, so who asked must at least see which is which.
        for each, key in zip(erasures, keys, strict=True):
            _say_which(each, key)
        raise AdminCallFailed(f"{pairs.path} cannot be written: {error}") from error


def _say_which(erasure: dict[str, Any], key: bytes) -> None:
    typer.echo(f"{erasure['id']}  {show_bytes(key, full=True)}", err=True)


def _await_all(
    api: AdminApi,
    asking: Iterator[Asked],
    deadline_s: float | None,
    receipt: Path | None,
    *,
    is_many: bool,
    as_json: bool,
) -> int:
    """Each is told as it ends; the exit code is that of the worst."""
    untold: deque[Asked] = deque()
    try:
        for each in asking:
            untold.append(each)
        return _await_each(api, untold, deadline_s, receipt, is_many=is_many, as_json=as_json)
    except BaseException:
        # The broker goes on with them, and nobody else knows which is which.
        if is_many and receipt is None:
            for erasure, key in untold:
                _say_which(erasure, key)
        raise


def _await_each(
    api: AdminApi,
    untold: deque[Asked],
    deadline_s: float | None,
    receipt: Path | None,
    *,
    is_many: bool,
    as_json: bool,
) -> int:
    count_of_all = len(untold)
    is_virtual = bool(api.get("clock")["virtual"])
    counts: dict[str, int] = {}
    code = 0
    while untold:
        erasure, key = untold[0]
        waiting = _Waiting(
            api, erasure["id"], deadline_s, quiet=as_json or is_many, is_virtual=is_virtual
        )
        ended = waiting.run()
        status = ended["status"]
        counts[status] = counts.get(status, 0) + 1
        code = max(code, exit_code(ended))
        try:
            written = _keep_receipt(api, ended, receipt, is_many=is_many)
        except AdminCallFailed as error:
            typer.echo(f"ledgerstone: {ended['id']}: {printable(str(error))}", err=True)
            written, code = None, max(code, 1)
        _say_ended(ended, key, written, is_many=is_many, as_json=as_json)
        untold.popleft()
    if is_many and not as_json:
        summary = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        write_line(f"{count_of_all} keys: {summary}")
        if receipt is not None:
            write_line(f"which erasure is for which key is in {receipt / PAIRS_FILE}")
    flush()
    return code


def _keep_receipt(
    api: AdminApi, erasure: dict[str, Any], receipt: Path | None, *, is_many: bool
) -> Path | None:
    if not erasure["has_receipt"] or receipt is None:
        return None
    path = receipt / f"{erasure['id']}.json" if is_many or receipt.is_dir() else receipt
    pin(write_receipt(api, erasure["id"], path))
    return path


def exit_code(erasure: dict[str, Any]) -> int:
    if erasure["stage"] == "not_found":
        return NOWHERE_EXIT
    return 0 if erasure["stage"] == "receipted" else NOT_DONE_EXIT


class _Waiting:
    """Asks again and again; where the clock is virtual, moves it to the next due moment."""

    def __init__(
        self,
        api: AdminApi,
        erasure_id: str,
        deadline_s: float | None,
        *,
        quiet: bool,
        is_virtual: bool,
    ) -> None:
        self._api = api
        self._id = erasure_id
        self._deadline_s = deadline_s
        self._quiet = quiet
        self._is_virtual = is_virtual
        self._stages_shown = 0
        self._aborts_shown = 0
        self._said: str | None = None
        # What it waits for now, and since when.
        self._waits: tuple[str | None, float] = (None, 0.0)

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
        aborted = erasure["aborted_transactions"][self._aborts_shown :]
        self._aborts_shown += len(aborted)
        for each in aborted:
            write_line(
                f"  aborts: the transaction of producer {each['producer_id']} in partition "
                f"{each['partition']}, open since offset {each['first_offset']}"
            )
        waits_for = erasure["waits_for"]
        if self._is_worth_saying(erasure) and waits_for not in (None, self._said):
            write_line(f"  waits: {printable(waits_for)}")
            self._said, is_new = waits_for, True
        flush()
        return is_new

    def _is_worth_saying(self, erasure: dict[str, Any]) -> bool:
        """What has a known end, and what has none but lasts; the rest is over in a moment."""
        waits_for, now_s = erasure["waits_for"], time.monotonic()
        if waits_for != self._waits[0]:
            self._waits = (waits_for, now_s)
        return erasure["waits_until_ms"] is not None or now_s - self._waits[1] >= SAID_AFTER_S


def _say_asked(asking: Iterator[Asked], *, is_many: bool, as_json: bool) -> None:
    """Each as soon as it is asked for."""
    for erasure, key in asking:
        if as_json:
            write_json({**erasure, **(bytes_field("key", key) if is_many else {})})
        else:
            _say_one_asked(erasure, key, is_many=is_many)
    flush()


def _say_one_asked(erasure: dict[str, Any], key: bytes, *, is_many: bool) -> None:
    due = f", due {show_time(erasure['due_ms'])}" if erasure["stage"] == "scheduled" else ""
    about = (
        f"key {show_bytes(key, full=True)}"
        if is_many
        else "`ledgerstone erasures` tells how far it is"
    )
    write_line(f"{erasure['id']} {erasure['stage']}{due}; {about}")


def _say_ended(
    erasure: dict[str, Any], key: bytes, written: Path | None, *, is_many: bool, as_json: bool
) -> None:
    if as_json:
        paired = bytes_field("key", key) if is_many else {}
        receipt_file = None if written is None else str(written)
        write_json({**erasure, **paired, "receipt_file": receipt_file})
        return
    about = f"  key {show_bytes(key, full=True)}" if is_many else ""
    write_line(f"{erasure['id']} {printable(verdict(erasure))}{about}")
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
        return f"erased, receipt issued{missed}{more}{unverified(erasure)}"
    if erasure["note"]:
        return f"{erasure['stage']}: {erasure['note']}"
    return f"{erasure['status']}: {erasure['waits_for'] or 'it goes on'}"


def unverified(erasure: dict[str, Any]) -> str:
    """How many outputs stand as not verified; older brokers do not tell."""
    count = erasure.get("outputs_not_verified", 0)
    if not count:
        return ""
    return f"; {count} {'output' if count == 1 else 'outputs'} not verified"


def write_receipt(api: AdminApi, erasure_id: str, path: Path) -> dict[str, Any]:
    content = api.get(f"erasures/{erasure_id}/receipt")
    try:
        path.write_bytes(canonical(content))
    except OSError as error:
        raise AdminCallFailed(f"the receipt cannot be written: {error}") from error
    return content
