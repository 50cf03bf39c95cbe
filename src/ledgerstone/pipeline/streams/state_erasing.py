"""Finds an erased key in the work directory of a stream operator, and takes it out. Shell.

A key leaves a state with its tombstone, so usually there is nothing to do. A key whose tombstone
was missed is retracted here as the tombstone would have done it; its groups, or its row of the
join, are told by the next run. Rows that name the key as their foreign key are mentions: they are
rows of other keys, and go with those.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ledgerstone.pipeline.erasing_files import FileVerdict, Finding, search_directory
from ledgerstone.pipeline.erasing_key import WantedKey
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import DELETED, OFFSET, PARTITION, TIMESTAMP
from ledgerstone.pipeline.status import held
from ledgerstone.pipeline.streams.aggregate_state import AGGREGATE, AggregateState
from ledgerstone.pipeline.streams.join_state import JoinState
from ledgerstone.pipeline.streams.join_tasks import FOREIGN, ROW_KEY
from ledgerstone.pipeline.streams.outbox import retract
from ledgerstone.pipeline.streams.staging import gathered
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import SlotFiles, SlotRows, SlotSink, hashes_of
from ledgerstone.pipeline.streams.totals import GroupTotals
from ledgerstone.pipeline.tables.target import InProcess

# Newer than any record, and of no partition.
_FOREVER: Final = datetime(9999, 12, 31, tzinfo=UTC)
_NOWHERE: Final = -1


def search_state(work: str, key: bytes) -> Finding:
    """The whole directory: the state, what is staged, Spark's checkpoint."""
    output = f"streams:{work}"
    if not Path(work).is_dir():
        return Finding(output=output, verdict=FileVerdict.CLEAN, evidence="there is no directory")
    searched = search_directory(Path(work), _wanted(key))
    outbox = [each for each in searched.hits if each.startswith("state/outbox/")]
    note = "; run the query once more: it tells what the outbox holds" if outbox else ""
    return searched.finding(output, note)


def _wanted(key: bytes) -> WantedKey:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return WantedKey(raw=key, columns={}, mentions=(FOREIGN,))
    # A table that is grouped by its key has it as a group.
    forms = (json.dumps([text], ensure_ascii=False), json.dumps([text]))
    return WantedKey(raw=key, columns={ROW_KEY: text}, texts=forms, mentions=(FOREIGN,))


def purge_state(work: str, key: bytes) -> Finding:
    """Returns what is left. A query that has not read the tombstone may read the key again."""
    store = StateStore(work)
    with held(store.work):
        version = store.read()
        state = _opened(store, version)
        stager = state.stager()
        changes = gathered(stager, [[_deleted(each, key) for each in stager.places]])
        retract(store, lambda version: state.merged(version, changes))
    return search_state(work, key)


def _opened(store: StateStore, version: StateVersion) -> AggregateState | JoinState:
    spec: Any = version.spec
    if spec.get("kind") == AGGREGATE:
        return AggregateState(store, GroupTotals.from_json(spec), InProcess())
    if "how" not in spec:
        raise PipelineError(f"{store.work} holds a state of an unknown kind")
    return JoinState(store, InProcess(), how=spec["how"], by_foreign_key=spec["by_foreign_key"])


def _deleted(stage: SlotFiles, key: bytes) -> SlotRows:
    row = {
        ROW_KEY: key,
        PARTITION: _NOWHERE,
        OFFSET: 0,
        TIMESTAMP: _FOREVER,
        DELETED: True,
    }
    change = pa.Table.from_pylist([row], stage.row_schema)
    sink = SlotSink(stage)
    sink.add(change, hashes_of(change, ROW_KEY))
    return sink.finish()
