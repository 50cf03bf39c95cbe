"""`ledgerstone audit`: the audit log, read from the files of a node or from the topic. Shell."""

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ledgerstone.cli.audit_topic import ChainName, parsed_or_none, read_topic, shown_lines
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_time,
)
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.errors import LogDirLocked, StorageError
from ledgerstone.fs import Filesystem
from ledgerstone.security.audit_chain import BrokenChain
from ledgerstone.security.audit_check import ChainCheck
from ledgerstone.security.audit_seal import KEY_BYTES, public_key_of
from ledgerstone.server.auditing.audit_file import audit_files, lines_of, lock_directory
from ledgerstone.server.auditing.redaction import FileInUse
from ledgerstone.server.auditing.redaction import redact as redact_lines
from ledgerstone.server.auditing.seal_key import KEY_FILE, load
from ledgerstone.system import OsFilesystem, SystemClock
from ledgerstone.time_text import iso_time

app = new_app("Show and verify the audit log.")

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="ledgerstone.audit.dir of the broker.")
]
PlaceArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DIRECTORY", help="ledgerstone.audit.dir of the broker; none with --topic."
    ),
]
TopicOption = Annotated[
    bool, typer.Option("--topic", help="Read the lines of all nodes from __audit.")
]
_HIDDEN: Final = ("v", "seq", "ts_ms", "node", "kind", "outcome", "by", "prev", "h", "who", "sig")


def _lines(fs: Filesystem, directory: Path) -> Iterator[bytes]:
    files = audit_files(fs, str(directory)) if directory.is_dir() else []
    if not files:
        raise typer.BadParameter(f"{directory} has no audit log")
    for path in files:
        with closing(fs.open_read_only(path)) as file:
            yield from lines_of(file)


def _check_place(directory: Path | None, *, topic: bool) -> None:
    if (directory is None) != topic:
        raise typer.BadParameter("give a DIRECTORY, or --topic")


# -- verify -------------------------------------------------------------------------------------


@app.command("verify")
def verify(
    directory: PlaceArgument = None,
    topic: TopicOption = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SEQ:HASH",
            help="An end of a chain that was kept elsewhere: it must be in the log. Only this "
            "shows that no lines were cut off at the end; repeatable.",
        ),
    ] = None,
    public_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HEX",
            help="What seals must be made with, as `audit public-key` said; repeatable.",
        ),
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Check that no line was changed, taken out or put in. Exit code 1 names the first that was."""
    _check_place(directory, topic=topic)
    keys = frozenset(_key(each) for each in public_key or ())
    checks = Checks(keys, expect or [])
    if topic:
        with connect(bootstrap) as client:
            for line in read_topic(client):
                checks.take(line.chain, partial(ChainCheck.take_any, data=line.data))
    else:
        assert directory is not None
        for data in _lines(OsFilesystem(), directory):
            checks.take(None, partial(ChainCheck.take, data=data))
    is_whole = checks.tell(as_json=as_json)
    flush()
    if not is_whole:
        raise typer.Exit(1)


def _key(text: str) -> str:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise typer.BadParameter(f"{text!r} is no public key: {2 * KEY_BYTES} digits 0-9a-f")
    return key.hex()


class Checks:
    """One for each chain; of files there is one, and it has no name."""

    def __init__(self, keys: frozenset[str], expected: list[str]) -> None:
        self._keys, self._expected = keys, expected
        self._checks: dict[ChainName | None, ChainCheck] = {}
        self._broken: dict[ChainName | None, BrokenChain] = {}

    def take(self, name: ChainName | None, feed: Callable[[ChainCheck], object]) -> None:
        """The first line that is wrong ends a chain; the others go on."""
        if name in self._broken:
            return
        check = self._checks.get(name)
        if check is None:
            check = self._checks[name] = ChainCheck(keys=self._keys, expected=self._expected)
        try:
            feed(check)
        except BrokenChain as broken:
            self._broken[name] = broken

    def tell(self, *, as_json: bool) -> bool:
        """False where something is wrong."""
        for name, check in self._checks.items():
            try:
                if name not in self._broken:
                    check.finish()
            except BrokenChain as broken:
                self._broken[name] = broken
        lacking = [
            each
            for each in self._expected
            if all(each in check.not_found for check in self._checks.values())
        ]
        for each in lacking:
            reason = f"{each} is not in the log"
            _say(None, {"ok": False, "reason": reason}, reason, as_json=as_json)
        for name, check in self._checks.items():
            # Of one chain that lacks its end nothing good is said.
            if name is not None or not lacking or name in self._broken:
                _say(name, *self._word(name, check), as_json=as_json)
        if not self._checks:
            _say(None, {"ok": False, "reason": "no lines"}, "there are no lines", as_json=as_json)
        return not (self._broken or lacking) and bool(self._checks)

    def _word(self, name: ChainName | None, check: ChainCheck) -> tuple[dict[str, Any], str]:
        broken = self._broken.get(name)
        if broken is not None:
            return {"ok": False, "line": broken.seq, "reason": str(broken)}, str(broken)
        sealed_by = list(check.sealed_by)
        facts = {
            "ok": True,
            "first": check.first,
            "last": check.end.seq,
            "redacted": check.redacted,
            "sealed_to": check.sealed_to,
            "unsealed": check.unsealed,
            "sealed_by": sealed_by,
            "beginning": check.beginning,
            "head": str(check.end),
        }
        seals = "none of them sealed"
        if check.sealed_to:
            trust = "" if self._keys else " (not compared: give --public-key)"
            seals = (
                f"sealed up to {check.sealed_to} with {', '.join(sealed_by)}{trust}, "
                f"{check.unsealed} not yet"
            )
        text = (
            f"lines {check.first} to {check.end.seq} are as written, {check.redacted} of them "
            f"redacted; {seals}; head {check.end}"
        )
        return facts, text if check.beginning is None else f"{text}; {check.beginning}"


def _say(name: ChainName | None, facts: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        about = {} if name is None else {"node": name.node, "chain": name.chain}
        write_json({**about, **facts})
    else:
        write_line(printable(text if name is None else f"{name}: {text}"))


# -- show ---------------------------------------------------------------------------------------


@app.command("show")
def show(
    directory: PlaceArgument = None,
    topic: TopicOption = False,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="With --topic: wait for more.")
    ] = False,
    kind: Annotated[
        str | None, typer.Option(help="Only kinds that begin like this: acl, authz.deny, ...")
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Only what this principal did.")] = None,
    node: Annotated[int | None, typer.Option(help="Only lines of this node.")] = None,
    from_time: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="From: ISO 8601, ms, or 2h (ago)."),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Before: the same.")
    ] = None,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the last so many of them.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the lines of the audit log, as they stand there."""
    _check_place(directory, topic=topic)
    if follow and (not topic or last is not None):
        raise typer.BadParameter("--follow goes with --topic, and not with --last")
    now_ms = SystemClock().now_ms()
    from_ms = None if from_time is None else parse_time(from_time, now_ms)
    until_ms = None if until is None else parse_time(until, now_ms)

    def is_wanted(line: dict[str, Any]) -> bool:
        return (
            (kind is None or str(line["kind"]).startswith(kind))
            and (principal is None or _who(line).get("principal") == principal)
            and (node is None or line["node"] == node)
            and (from_ms is None or line["ts_ms"] >= from_ms)
            and (until_ms is None or line["ts_ms"] < until_ms)
        )

    def show_all(lines: Iterable[dict[str, Any]]) -> None:
        found: Iterable[dict[str, Any]] = filter(is_wanted, lines)
        for line in found if last is None else deque(found, maxlen=last):
            write_json(line) if as_json else write_line(_text(line))
            if follow:
                flush()

    if topic:
        with connect(bootstrap) as client:
            show_all(shown_lines(client, follows=follow))
    else:
        assert directory is not None
        found = map(parsed_or_none, _lines(OsFilesystem(), directory))
        show_all(each for each in found if each is not None)
    flush()


def _who(line: dict[str, Any]) -> dict[str, Any]:
    who = line.get("who")
    return who if isinstance(who, dict) else {}


def _text(line: dict[str, Any]) -> str:
    who = _who(line)
    name = "(redacted)" if "who" not in line else who.get("principal", "-")
    facts = {key: value for key, value in line.items() if key not in _HIDDEN}
    rest = {key: value for key, value in who.items() if key not in ("salt", "principal", "host")}
    time = iso_time(line["ts_ms"])
    return printable(
        f"{line['node']}/{line['seq']} {time} {line['kind']} {line.get('outcome')} {name} "
        f"{who.get('host', '-')} {json.dumps({**facts, **rest})}"
    )


# -- redact, public-key -------------------------------------------------------------------------


@app.command("redact")
def redact(
    directory: DirectoryArgument,
    seq: Annotated[list[int], typer.Argument(metavar="SEQ...", help="Numbers of the lines.")],
    stopped: Annotated[
        bool,
        typer.Option("--stopped", help="The broker does not run: its newest file may change, too."),
    ] = False,
) -> None:
    """Take the names of people out of lines. The chain holds all the same."""
    fs, wanted = OsFilesystem(), frozenset(seq)
    if not directory.is_dir() or not audit_files(fs, str(directory)):
        raise typer.BadParameter(f"{directory} has no audit log")
    try:
        lock = lock_directory(fs, str(directory)) if stopped else None
    except LogDirLocked as error:
        raise typer.BadParameter(f"the broker is not stopped: {error}") from None
    try:
        done = redact_lines(fs, str(directory), wanted, may_change_newest=stopped)
    except FileInUse as error:
        reason = f"the broker may be writing {error}, until its day is over; or stop it, and say"
        raise typer.BadParameter(f"{reason} --stopped") from None
    finally:
        if lock is not None:
            lock.release()
    write_line(f"{done} lines redacted")
    flush()
    if done < len(wanted):
        raise typer.Exit(1)


@app.command("public-key")
def public_key(
    directory: DirectoryArgument,
    key_file: Annotated[
        Path | None, typer.Option(help="ledgerstone.audit.key.file, where it is set.")
    ] = None,
) -> None:
    """Print what seals of this node are checked with. Keep it elsewhere, for `verify`."""
    path = key_file or directory / KEY_FILE
    try:
        secret = load(OsFilesystem(), str(path))
    except (OSError, StorageError) as error:
        raise typer.BadParameter(str(error)) from None
    if secret is None:
        raise typer.BadParameter(f"{path} is not there")
    write_line(public_key_of(secret))
    flush()
