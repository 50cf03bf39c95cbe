"""`audit.state`: how far the audit log's lines have come elsewhere. Grade D.

What is lost of it is done again: lines are sent to the topic a second time, where their keys are
the same.
"""

import json
from typing import Final, NamedTuple

from ledgerstone.fs import Filesystem, join
from ledgerstone.server.auditing.seal_key import write_whole

STATE_FILE: Final = "audit.state"
_VERSION: Final = 1
_MAX_BYTES: Final = 4096


class AuditState(NamedTuple):
    """`sent_seq`: the topic has every line up to it. `redactions`: of those that were asked for,
    how many the log names; `sent_redactions`: how many of them the topic has."""

    chain: str = ""
    sent_seq: int = 0
    redactions: int = 0
    sent_redactions: int = 0


def read_state(fs: Filesystem, directory: str) -> AuditState:
    """The beginning, where there is none that can be read."""
    path = join(directory, STATE_FILE)
    if not fs.exists(path):
        return AuditState()
    file = fs.open_read_only(path)
    try:
        data = file.pread(_MAX_BYTES, 0)
    finally:
        file.close()
    try:
        content = json.loads(data)
        found = AuditState(*(content[name] for name in AuditState._fields))
    except (ValueError, KeyError, TypeError):
        return AuditState()
    is_whole = type(found.chain) is str and all(type(each) is int for each in found[1:])
    return found if is_whole and content.get("version") == _VERSION else AuditState()


def write_state(fs: Filesystem, directory: str, state: AuditState) -> None:
    content = {"version": _VERSION, **state._asdict()}
    write_whole(fs, join(directory, STATE_FILE), json.dumps(content).encode() + b"\n")
