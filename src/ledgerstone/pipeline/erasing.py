"""Finds an erased key in what pipelines wrote, removes it, and reports to the receipt. Shell.

`search` covers the table of a pipeline, its work directory (checkpoints, status, states of
aggregates, notes of sources) and directories of snapshots. `purge` rewrites whatever still holds
the key and searches again. `report` posts the result to the erasure, where it becomes part of the
signed receipt, or a signed supplement to a receipt that was issued before. `verifying` is the
plug-in that a broker calls by itself.
"""

import http.client
import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from ledgerstone.client.http_api import authorization, open_api, parse_api_address
from ledgerstone.client.properties import VARIABLE, read_client_properties
from ledgerstone.client.security import client_security
from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.erasing_files import FileVerdict, Finding, search_directory
from ledgerstone.pipeline.erasing_key import WantedKey, wanted_key
from ledgerstone.pipeline.erasing_snapshots import purge_snapshots
from ledgerstone.pipeline.erasing_tables import output_name, purge_table, search_table
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.holding import held_with_table
from ledgerstone.pipeline.layout import TOPIC
from ledgerstone.pipeline.schema_registry import registered_schema

_TIMEOUT_S: Final = 30.0
_MAX_ANSWER: Final = 16 << 20


def search(pipeline: Pipeline, key: bytes, *, snapshots: Sequence[str] = ()) -> list[Finding]:
    wanted = wanted_key(pipeline.key, key, registered_schema)
    found = [_told(lambda: search_table(pipeline, wanted), output_name(pipeline.target))]
    for directory in (pipeline.work, *snapshots):
        found.append(_search_directory(directory, wanted))
    return found


def purge(
    pipeline: Pipeline, key: bytes, *, snapshots: Sequence[str] = (), erasure_id: str | None = None
) -> list[Finding]:
    """Returns what is left afterwards. A table that has not applied the tombstone yet would get the
    row again: run the pipeline first. Snapshots record the erasure, so that a restore knows it.
    Raises PipelineError if the pipeline runs: both would rewrite the same files."""
    wanted = wanted_key(pipeline.key, key, registered_schema)
    if pipeline.source.topics:
        # The same key of another topic is not erased; a search finds it, and says so.
        columns = {TOPIC: pipeline.source.topic, **wanted.columns}
        wanted = WantedKey(raw=wanted.raw, columns=columns)
    with held_with_table(pipeline, makes=False):
        purge_table(pipeline, wanted)
        for path in sorted(Path(pipeline.work).rglob("*.sqlite")):
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("VACUUM")
    for directory in snapshots:
        purge_snapshots(Path(directory), pipeline.source.topic, key, erasure_id)
    return search(pipeline, key, snapshots=snapshots)


def _search_directory(directory: str, wanted: WantedKey) -> Finding:
    output = f"files:{directory}"
    path = Path(directory)
    if not path.is_dir():
        return Finding(output=output, verdict=FileVerdict.CLEAN, evidence="there is no directory")
    return search_directory(path, wanted).finding(output)


class _Search(Protocol):
    def __call__(self) -> Finding: ...


def _told(search_one: _Search, output: str) -> Finding:
    """Catches every error, and reports only its type: the message may quote the key."""
    try:
        return search_one()
    except Exception as error:  # noqa: BLE001 - whatever a driver raises
        evidence = f"it cannot be searched: {type(error).__name__}"
        return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What became of the evidence."""

    has_receipt: bool  # it had one before, so this is a supplement
    supplement: int | None  # the number of the last one
    not_verified: int | None  # outputs that stand so still; an older broker does not tell


def report(
    api: str, erasure_id: str, findings: Sequence[Finding], *, verifier: str, group: str | None
) -> Reported:
    """All findings at once, so that no receipt is signed between two of them. `api` is the address
    of the broker's HTTP API: http://HOST:PORT, or https://; `group` is the one the pipeline reads
    as. Who asks is in the properties that LEDGERSTONE_COMMAND_CONFIG names."""
    address = parse_api_address(api)
    if address is None:
        raise PipelineError(f"{api} is not an address like http://HOST:PORT")
    properties = os.environ.get(VARIABLE)
    security = client_security(read_client_properties(properties) if properties else {})
    path = f"/api/v1/erasures/{quote(erasure_id, safe='')}/evidence"
    words = [
        {"output": each.output, "verdict": each.verdict.value, "evidence": each.evidence}
        for each in findings
    ]
    body: dict[str, object] = {"verifier": verifier, "words": words}
    if group is not None:
        body["group"] = group
    with closing(open_api(address, security, timeout_s=_TIMEOUT_S)) as connection:
        headers = {"Content-Type": "application/json", **authorization(address, security)}
        connection.request("POST", path, json.dumps(body).encode(), headers)
        answer = connection.getresponse()
        text = answer.read(_MAX_ANSWER).decode("utf-8", "replace")
    if answer.status != http.client.OK:
        raise PipelineError(f"erasure {erasure_id}: {answer.status} {text.strip()[:200]}")
    return _reported(text)


def _reported(text: str) -> Reported:
    try:
        content = json.loads(text)
        supplements = content.get("supplements", [])
        return Reported(
            has_receipt=content.get("has_receipt") is True,
            supplement=int(supplements[-1]["number"]) if supplements else None,
            not_verified=content.get("outputs_not_verified"),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        # It was taken; what else is said is only shown.
        return Reported(has_receipt=False, supplement=None, not_verified=None)
