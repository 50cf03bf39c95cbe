"""Snapshots of partitions with more than 2 GiB of values: no step makes one array of them."""

import numpy as np
import pyarrow as pa
import pytest

from ledgerstone.pipeline import canonical
from ledgerstone.pipeline.state import folding
from ledgerstone.pipeline.state.folding import SNAPSHOT_SCHEMA, facts_of
from ledgerstone.records.kernels import Hashes


def rows_of(*chunks: range) -> pa.Table:
    return pa.concat_tables(
        [
            pa.table(
                [
                    pa.array([b"k%d" % each for each in chunk], pa.binary()),
                    pa.array([b"v" * (each % 7) if each % 5 else None for each in chunk]),
                    pa.array(chunk, pa.int64()),
                    pa.array(chunk, pa.timestamp("us", tz="UTC")),
                ],
                schema=SNAPSHOT_SCHEMA,
            )
            for chunk in chunks
        ]
    )


def test_facts_are_of_all_chunks_and_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = facts_of(rows_of(range(300)))
    taken: list[int] = []

    def checksum(keys: pa.Array, values: pa.Array) -> int:
        taken.append(len(values))
        return canonical.checksum(keys, values)

    monkeypatch.setattr(folding, "checksum", checksum)

    assert facts_of(rows_of(range(100), range(100, 250), range(250, 300))) == whole
    assert taken == [80, 120, 40]
    assert facts_of(SNAPSHOT_SCHEMA.empty_table()).checksum == "0" * 32


def test_checksum_joins_few_bytes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = pa.array([b"k%d" % each for each in range(200)], pa.binary())
    values = pa.array([b"v" * int(size) for size in np.linspace(0, 400, 200)], pa.binary())
    whole = canonical.checksum(keys, values)
    joined: list[int] = []
    hashes = canonical.pair_hashes

    def pair_hashes(some_keys: pa.Array, some_values: pa.Array) -> Hashes:
        joined.append(some_keys.nbytes + some_values.nbytes)
        return hashes(some_keys, some_values)

    monkeypatch.setattr(canonical, "pair_hashes", pair_hashes)
    monkeypatch.setattr(canonical, "_BYTES_AT_ONCE", 1000, raising=False)

    assert canonical.checksum(keys, values) == whole
    assert max(joined) <= 1000
