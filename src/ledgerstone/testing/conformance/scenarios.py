"""The scenarios, each a function over a stage. Shell.

A docstring is the rule that a failing consumer broke; it is shown with the failure.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from ledgerstone.testing.conformance.stage import ScenarioStage

Scenario = Callable[[ScenarioStage], None]

# Just below a topic's default limit, including the overhead of a batch.
LARGE_VALUE_BYTES: Final = 1_000_000


def null_value(stage: ScenarioStage) -> None:
    """A record whose value is null deletes its key."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.expect({"a": "1", "b": "2"})
    stage.delete("a")
    stage.expect({"b": "2"})


def null_value_with_headers(stage: ScenarioStage) -> None:
    """A null value deletes its key whatever headers the record has."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.expect({"a": "1", "b": "2"})
    stage.delete("a", headers={"reason": b"account closed", "trace-id": b"\x00\x01"})
    stage.expect({"b": "2"})


def recreated_after_delete(stage: ScenarioStage) -> None:
    """A value that follows a tombstone brings its key back."""
    stage.put("a", "1")
    stage.delete("a")
    stage.expect({})
    stage.put("a", "2")
    stage.expect({"a": "2"})
    stage.delete("a")
    stage.put("a", "3")
    stage.expect({"a": "3"})


def delete_of_unknown_key(stage: ScenarioStage) -> None:
    """A tombstone of a key that was never seen changes nothing and is not an error."""
    stage.delete("never-written")
    stage.put("a", "1")
    stage.expect({"a": "1"})


def repeated_tombstones(stage: ScenarioStage) -> None:
    """A second tombstone of a key changes nothing and is not an error."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.delete("a")
    stage.delete("a")
    stage.expect({"b": "2"})
    stage.delete("a")
    stage.expect({"b": "2"})


def empty_value_is_no_tombstone(stage: ScenarioStage) -> None:
    """An empty value is a value: only null deletes."""
    key, other = stage.key("a"), stage.key("b")
    stage.cluster.produce(stage.topic, key, stage.value("1"), partition=0)
    stage.cluster.produce(stage.topic, key, b"", partition=0)
    stage.cluster.produce(stage.topic, other, stage.value("2"), partition=0)
    stage.expect_bytes({key: b"", other: stage.value("2")})


def committed_transaction(stage: ScenarioStage) -> None:
    """A tombstone of a committed transaction deletes; its marker is not a record."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.transaction({"a": None, "c": "3"}, commit=True)
    stage.expect({"b": "2", "c": "3"})


def aborted_transaction(stage: ScenarioStage) -> None:
    """A tombstone of an aborted transaction was never written (isolation.level=read_committed)."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.transaction({"a": None, "c": "3"}, commit=False)
    stage.expect({"a": "1", "b": "2"})


def interleaved_transactions(stage: ScenarioStage) -> None:
    """An aborted transaction takes only its own records along, not what others wrote meanwhile."""
    stage.put("a", "1")
    stage.put("b", "2")
    aborted, committed = stage.begin("aborted"), stage.begin("committed")
    aborted.delete("a")
    committed.delete("b")
    stage.put("c", "3")
    aborted.put("d", "4")
    aborted.abort()
    committed.put("e", "5")
    committed.commit()
    stage.expect({"a": "1", "c": "3", "e": "5"})


def gaps_after_compaction(stage: ScenarioStage) -> None:
    """Compaction leaves gaps between offsets, so offsets must not be used to count records."""
    for text in ("1", "2", "3"):
        for name in ("a", "b", "c"):
            stage.put(name, text)
    stage.delete("c")
    stage.cluster.compact(stage.topic)
    stage.expect({"a": "3", "b": "3"})
    stage.put("a", "4")
    stage.delete("b")
    stage.expect({"a": "4"})
    stage.cluster.finish_deletes(stage.topic)
    stage.put("d", "5")
    stage.expect({"a": "4", "d": "5"})


def deleted_while_away(stage: ScenarioStage) -> None:
    """A consumer that comes back within delete.retention.ms finds the tombstone and obeys it."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.expect({"a": "1", "b": "2"})
    stage.stop_consumer()
    stage.delete("a")
    stage.cluster.compact(stage.topic)
    stage.expect({"b": "2"})


def missed_delete(stage: ScenarioStage) -> None:
    """A consumer that was away longer than delete.retention.ms must not trust its old state."""
    stage.put("a", "1")
    stage.put("b", "2")
    stage.expect({"a": "1", "b": "2"})
    stage.stop_consumer()
    stage.delete("a")
    stage.forget("a")
    stage.expect({"b": "2"})


def key_moves_between_partitions(stage: ScenarioStage) -> None:
    """A tombstone deletes only in its own partition: the key's value in another one stays."""
    stage.put("a", "old", partition=0)
    stage.put("a", "new", partition=1)
    stage.read()
    stage.delete("a", partition=0)
    stage.expect({"a": "new"})


def compressed_batches(stage: ScenarioStage) -> None:
    """Each record of a compressed batch counts, including tombstones."""
    expected: dict[str, str] = {}
    for codec in stage.options.codecs:
        stage.batch([(f"{codec}-gone", "1"), (f"{codec}-stays", "2")], codec=codec)
        stage.batch([(f"{codec}-late", "3"), (f"{codec}-gone", None)], codec=codec)
        expected |= {f"{codec}-stays": "2", f"{codec}-late": "3"}
    stage.expect(expected)


def large_values(stage: ScenarioStage) -> None:
    """A value of the largest allowed size arrives whole, and is deleted like any other."""
    text = "v" * LARGE_VALUE_BYTES
    stage.put("a", text)
    stage.put("b", text)
    stage.expect({"a": text, "b": text})
    stage.delete("a")
    stage.expect({"b": text})


_PARTITIONS: Final[Mapping[str, int]] = MappingProxyType({"key_moves_between_partitions": 2})

SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        each.__name__: each
        for each in (
            null_value,
            null_value_with_headers,
            recreated_after_delete,
            delete_of_unknown_key,
            repeated_tombstones,
            empty_value_is_no_tombstone,
            committed_transaction,
            aborted_transaction,
            interleaved_transactions,
            gaps_after_compaction,
            deleted_while_away,
            missed_delete,
            key_moves_between_partitions,
            compressed_batches,
            large_values,
        )
    }
)


def partitions_of(name: str) -> int:
    return _PARTITIONS.get(name, 1)
