"""`ledgerstone audit`: the audit log, read from its files. Shell."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.fs import Filesystem
from ledgerstone.security.audit_chain import BrokenChain, ChainEnd, parsed, redacted, verified
from ledgerstone.server.auditing.audit_file import audit_files, lines_of
from ledgerstone.system import OsFilesystem
from ledgerstone.time_text import iso_time

app = new_app("Show and verify the audit log.")

DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIRECTORY", help="ledgerstone.audit.dir of the broker.")
]


def _lines(fs: Filesystem, directory: Path) -> Iterator[bytes]:
    files = audit_files(fs, str(directory)) if directory.is_dir() else []
    if not files:
        raise typer.BadParameter(f"{directory} has no audit log")
    for path in files:
        file = fs.open_read_only(path)
        try:
            yield from lines_of(file)
        finally:
            file.close()


@app.command("verify")
def verify(
    directory: DirectoryArgument,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="SEQ:HASH",
            help="An end of the chain that was kept elsewhere: it must be in the log. Only this "
            "shows that no lines were cut off at the end.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check that no line was changed, taken out or put in. Exit code 1 names the first that was."""
    link, first, expected = ChainEnd(), 0, expect is None
    redactions = 0
    try:
        for line, link in verified(_lines(OsFilesystem(), directory)):
            first = first or link.seq
            expected = expected or str(link) == expect
            redactions += "who" not in line
    except BrokenChain as broken:
        _say({"ok": False, "line": broken.seq, "reason": str(broken)}, str(broken), as_json=as_json)
        raise typer.Exit(1) from broken
    if not expected:
        reason = f"{expect} is not in the log"
        _say({"ok": False, "reason": reason, "head": str(link)}, reason, as_json=as_json)
        raise typer.Exit(1)
    said = f"lines {first} to {link.seq} are as written, {redactions} of them redacted; head {link}"
    facts = {
        "ok": True,
        "first": first,
        "last": link.seq,
        "redacted": redactions,
        "head": str(link),
    }
    _say(facts, said, as_json=as_json)


def _say(facts: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        write_json(facts)
    else:
        write_line(printable(text))
    flush()


@app.command("show")
def show(
    directory: DirectoryArgument,
    kind: Annotated[
        str | None, typer.Option(help="Only kinds that begin like this: acl, authz.deny, ...")
    ] = None,
    principal: Annotated[str | None, typer.Option(help="Only what this principal did.")] = None,
    last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the last so many of them.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show the lines of the audit log, as they stand there."""
    found = [
        line
        for data in _lines(OsFilesystem(), directory)
        if (line := _parsed(data)) is not None
        and (kind is None or line["kind"].startswith(kind))
        and (principal is None or line.get("who", {}).get("principal") == principal)
    ]
    for line in found if last is None else found[-last:]:
        if as_json:
            write_json(line)
        else:
            write_line(_text(line))
    flush()


def _parsed(data: bytes) -> dict[str, Any] | None:
    """None for what is no line: `verify` says so."""
    try:
        return parsed(data, 0)
    except BrokenChain:
        return None


def _text(line: dict[str, Any]) -> str:
    who = line.get("who")
    name = "(redacted)" if who is None else who.get("principal", "-")
    host = "" if who is None else who.get("host", "")
    hidden = ("v", "seq", "ts_ms", "node", "kind", "outcome", "by", "prev", "h", "who")
    facts = {key: value for key, value in line.items() if key not in hidden}
    time = iso_time(int(line["ts_ms"]))
    return printable(
        f"{line['seq']} {time} {line['kind']} {line['outcome']} {name} {host} {json.dumps(facts)}"
    )


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
    fs = OsFilesystem()
    files = audit_files(fs, str(directory)) if directory.is_dir() else []
    wanted, done = frozenset(seq), 0
    for path in files:
        target = Path(path)
        lines = target.read_bytes().splitlines(keepends=True)
        chosen = [_number(each) in wanted for each in lines]
        if not any(chosen):
            continue
        if path == files[-1] and not stopped:
            raise typer.BadParameter("the broker may be writing this file; stop it, say --stopped")
        changed = [
            redacted(each) if is_chosen else each
            for each, is_chosen in zip(lines, chosen, strict=True)
        ]
        _replace(fs, path, b"".join(changed))
        done += sum(chosen)
    write_line(f"{done} lines redacted")
    flush()
    if done < len(wanted):
        raise typer.Exit(1)


def _number(data: bytes) -> int | None:
    line = _parsed(data.rstrip(b"\n"))
    return None if line is None else int(line["seq"])


def _replace(fs: Filesystem, path: str, content: bytes) -> None:
    """Crash here: the file is the old one or the new one."""
    aside = f"{path}.redacted"
    if fs.exists(aside):
        fs.unlink(aside)
    file = fs.create_private(aside)
    file.pwrite(content, 0)
    file.fsync()
    file.close()
    fs.rename(aside, path)
    fs.fsync_dir(str(Path(path).parent))
