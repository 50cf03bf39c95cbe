"""Asks the state of a stream operator for one key, without Spark and beside a running query. Shell.

What Kafka Streams calls an interactive query. One file of each table is read, the one that holds
the key. A commit in between may remove it; then the newer version is asked.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.aggregate_state import AGGREGATE
from ledgerstone.pipeline.streams.aggregate_tasks import groups_table, keys_table
from ledgerstone.pipeline.streams.foreign_tasks import LEFT_KEYS, SUBSCRIPTIONS
from ledgerstone.pipeline.streams.group_values import GROUP, ends_of
from ledgerstone.pipeline.streams.join_tasks import FOREIGN, LEFT, RIGHT, ROW_KEY, ROW_VALUE
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import StateTable, hashes_of
from ledgerstone.pipeline.streams.totals import GroupTotals
from ledgerstone.pipeline.streams.value_tasks import EXTREMES
from ledgerstone.pipeline.tables.group_merging import read_files
from ledgerstone.pipeline.tables.leaves import holds

_ATTEMPTS: Final = 5


def state_get(work: str, key: bytes) -> dict[str, Any] | None:
    """The row of a join, or the result of a group and what the key itself gives to its group. None
    if the state has neither."""
    store = StateStore(work)
    for left in reversed(range(_ATTEMPTS)):
        version = store.read()
        try:
            found = _Asked(store, version).get(key)
        except PipelineError:
            if not left or store.read() == version:
                raise
            continue
        return None if found is None else {"batch": version.batch, **found}
    raise AssertionError("the last attempt returns or raises")


class _Asked:
    def __init__(self, store: StateStore, version: StateVersion) -> None:
        self._store = store
        self._version = version

    def get(self, key: bytes) -> dict[str, Any] | None:
        if self._version.spec["kind"] == AGGREGATE:
            return self._aggregate(key)
        return self._foreign(key) if self._version.spec["by_foreign_key"] else self._joined(key)

    def _rows(self, table: StateTable, cell: object) -> pa.Table:
        (by,) = table.by
        wanted = pa.table({by: pa.array([cell], table.schema.field(by).type)})
        hashes = hashes_of(wanted, by)
        files = [each for each in self._version.files(table.name) if holds(each.leaf, hashes).all()]
        rows = read_files(self._store.area, files, table.schema)
        return rows.filter(pc.equal(rows.column(by), wanted.column(by)[0]))

    def _aggregate(self, key: bytes) -> dict[str, Any] | None:
        totals = GroupTotals.from_json(self._version.spec)
        given = self._rows(keys_table(totals), key).to_pylist()
        found: dict[str, Any] = {}
        for group in _groups(key, totals):
            sums = totals.sums_of(self._rows(groups_table(totals), group))
            if group in sums:
                extremes = ends_of(self._rows(EXTREMES, group))
                _, value = totals.record(group, sums[group], extremes)
                found["result"] = json.loads(value or b"null")
        for row in given:
            found["group"] = dict(zip(totals.by, json.loads(row[GROUP]), strict=True))
        return found or None

    def _joined(self, key: bytes) -> dict[str, Any] | None:
        sides = {
            name: _value(self._rows(table, key))
            for name, table in (("left", LEFT), ("right", RIGHT))
        }
        return sides if any(each is not None for each in sides.values()) else None

    def _foreign(self, key: bytes) -> dict[str, Any] | None:
        rows = self._rows(LEFT_KEYS, key).to_pylist()
        if not rows:
            return None
        foreign = rows[0][FOREIGN]
        if foreign is None:
            return {"foreign_key": None, "right": None}
        mine = self._rows(SUBSCRIPTIONS, foreign)
        mine = mine.filter(pc.equal(mine.column(ROW_KEY), pa.scalar(key, pa.binary())))
        return {
            "foreign_key": foreign.decode("utf-8", "backslashreplace"),
            "left": _value(mine),
            "right": _value(self._rows(RIGHT, foreign)),
        }


def _groups(key: bytes, totals: GroupTotals) -> Iterator[str]:
    """The groups that a text may mean: an object as the key of a result, or the one cell of it."""
    text = key.decode("utf-8", "replace")
    try:
        content = json.loads(text)
    except ValueError:
        content = text
    if isinstance(content, dict):
        if set(content) == set(totals.names):
            yield json.dumps([content[each] for each in totals.names], ensure_ascii=False)
        return
    if len(totals.names) == 1:
        forms = {json.dumps([each], ensure_ascii=False): None for each in (text, content)}
        yield from forms


def _value(rows: pa.Table) -> str | None:
    found = rows.column(ROW_VALUE).to_pylist()
    return found[0].decode("utf-8", "backslashreplace") if found else None
