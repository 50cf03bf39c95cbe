"""The journal of erasures: records of `__erasures`, and the table they replay to. Grade P.

One record holds a whole erasure under its id, so that compaction of the topic loses nothing. The
table changes by replay alone, live and after a restart. Contract: README.md, "Journal".
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import asdict
from ledgerstone.erasure.erasure import (
    NEEDS_KEY,
    Acceptance,
    AskedAbort,
    Erasure,
    Evidence,
    FileHits,
    FileTrouble,
    HostDisk,
    HostedAt,
    KindCount,
    LostBroker,
    NameHits,
    PartitionEnd,
    PartitionScan,
    RecordCounts,
    RecordSpan,
    ReplicaScan,
    ScanOutcome,
    ScanProof,
    SearchedFiles,
    Stage,
    Tombstone,
    is_id,
)
from ledgerstone.erasure.key_print import KeyPrint
from ledgerstone.erasure.outputs import (
    GroupReading,
    KnownOutput,
    Reading,
    Status,
    Supplement,
    UnverifiedReason,
)
from ledgerstone.erasure.shape import check_shape
from ledgerstone.errors import CorruptRecord
from ledgerstone.uuid_text import uuid_from_text, uuid_to_text

ERASURES_TOPIC: Final = "__erasures"
VERSION: Final = 1
# Under it the journal names the secrets that its prints were made with.
SECRETS_KEY: Final = b"secrets"
# Fields that would be made of the letters of a text as well.
_LISTS: Final = (
    "asked_aborts",
    "awaited_verifiers", "stage_times", "searched_ends", "target_partitions", "tombstones",
    "scans", "recreated", "elsewhere", "evidence", "exceptions", "readings", "outputs",
    "supplements", "hosts", "lost_brokers",
)  # fmt: skip


class JournalRecord(NamedTuple):
    key: bytes
    value: bytes


class ErasureBook:
    """Every erasure by its id, in the order in which they first came."""

    __slots__ = ("_erasures",)

    def __init__(self) -> None:
        self._erasures: dict[str, Erasure] = {}

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Takes in a committed record; one without a value forgets the erasure."""
        erasure_id = _id_of(key)
        if value is None:
            self._erasures.pop(erasure_id, None)
            return
        erasure = decode(value)
        if erasure.id != erasure_id:
            raise CorruptRecord(f"{erasure.id} under the key {erasure_id}")
        self._erasures[erasure_id] = erasure

    def get(self, erasure_id: str) -> Erasure | None:
        return self._erasures.get(erasure_id)

    def __iter__(self) -> Iterator[Erasure]:
        return iter(self._erasures.values())

    def __len__(self) -> int:
        return len(self._erasures)

    def unfinished(self) -> list[Erasure]:
        return [erasure for erasure in self if not erasure.is_over]

    def of_key(self, hmac: bytes) -> list[Erasure]:
        """All that ever were about the key with this print."""
        return [erasure for erasure in self if erasure.key_print.hmac == hmac]


def record_of(erasure: Erasure) -> JournalRecord:
    return JournalRecord(erasure.id.encode(), encode(erasure))


def encode(erasure: Erasure) -> bytes:
    sealed = erasure.sealed_key
    content: dict[str, Any] = {
        **asdict(erasure),
        "version": VERSION,
        "topic_id": uuid_to_text(erasure.topic_id),
        "key_print": erasure.key_print.to_json(),
        "sealed_key": None if sealed is None else b64encode(sealed).decode("ascii"),
        "stage": erasure.stage.value,
        "stage_times": [[stage.value, at_ms] for stage, at_ms in erasure.stage_times],
        "evidence": [{**asdict(each), "outcome": each.outcome.value} for each in erasure.evidence],
        "readings": [[*each[:3], each.reading.value, *each[4:]] for each in erasure.readings],
        "outputs": [_output_json(each) for each in erasure.outputs],
        "supplements": [each._asdict() for each in erasure.supplements],
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode("ascii")


def decode(value: bytes) -> Erasure:
    """CorruptRecord where the bytes are not what `encode` makes."""
    try:
        content = json.loads(value)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r}, only {VERSION} is known")
        erasure = _erasure_from(content)
        check_shape(erasure, Erasure)
        for name in _LISTS:
            if not isinstance(content.get(name, []), list):
                raise TypeError(f"{name} is no list")
        if not erasure.stage_times:
            raise ValueError("it was never in any stage")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptRecord(
            f"{len(value)} bytes that are no erasure: {type(error).__name__}: {error}"
        ) from error
    if (erasure.sealed_key is not None) != (erasure.stage in NEEDS_KEY):
        raise CorruptRecord(f"{erasure.id}: {erasure.stage.value}, and its sealed key does not fit")
    return erasure


def _erasure_from(content: Mapping[str, Any]) -> Erasure:
    sealed = content["sealed_key"]
    plain = {
        name: content[name]
        for name in (
            "id", "topic", "reason", "requested_by", "requested_ms", "due_ms", "deadline_ms",
            "note", "receipt",
        )
    }  # fmt: skip
    return Erasure(
        **plain,
        topic_id=uuid_from_text(content["topic_id"]),
        key_print=KeyPrint.from_json(content["key_print"]),
        sealed_key=None if sealed is None else b64decode(sealed, validate=True),
        awaited_verifiers=tuple(content["awaited_verifiers"]),
        stage=Stage(content["stage"]),
        stage_times=tuple((Stage(stage), at_ms) for stage, at_ms in content["stage_times"]),
        searched_ends=tuple(PartitionEnd(*each) for each in content["searched_ends"]),
        target_partitions=tuple(content["target_partitions"]),
        tombstones=tuple(Tombstone(*each) for each in content["tombstones"]),
        scans=tuple(scan_from(each) for each in content["scans"]),
        recreated=tuple(RecordSpan(*each) for each in content["recreated"]),
        elsewhere=tuple(RecordSpan(*each) for each in content["elsewhere"]),
        evidence=tuple(
            Evidence(**{**each, "outcome": ScanOutcome(each["outcome"])})
            for each in content["evidence"]
        ),
        # Records of before there were such things lack them.
        exceptions=tuple(Acceptance(**each) for each in content.get("exceptions", ())),
        hosts=tuple(HostDisk(*each) for each in content.get("hosts", ())),
        lost_brokers=tuple(LostBroker(**each) for each in content.get("lost_brokers", ())),
        searched=_searched_from(content.get("searched")),
        on_virtual_clock=content.get("on_virtual_clock", False),
        outputs_wait_ms=content.get("outputs_wait_ms"),
        abort_open=content.get("abort_open", False),
        asked_aborts=tuple(AskedAbort(*each) for each in content.get("asked_aborts", ())),
        readings=tuple(_reading_from(each) for each in content.get("readings", ())),
        unlisted_groups=content.get("unlisted_groups", 0),
        outputs=tuple(_output_from(each) for each in content.get("outputs", ())),
        supplements=tuple(Supplement(**each) for each in content.get("supplements", ())),
    )


def _reading_from(content: Sequence[Any]) -> GroupReading:
    group, partition, offset, reading, *others = content
    return GroupReading(group, partition, offset, Reading(reading), *others)


def _output_json(output: KnownOutput) -> dict[str, Any]:
    return {**output._asdict(), "status": output.status.value, "reason": output.reason.value}


def _output_from(content: Mapping[str, Any]) -> KnownOutput:
    words = {"status": Status(content["status"]), "reason": UnverifiedReason(content["reason"])}
    return KnownOutput(**{**content, **words})


def _searched_from(content: Mapping[str, Any] | None) -> SearchedFiles | None:
    if content is None:
        return None
    return SearchedFiles(**{**content, "node_ids": tuple(content.get("node_ids", ()))})


def scan_from(content: Mapping[str, Any]) -> ReplicaScan:
    """As `dataclasses.asdict` has told it, also before some of its fields were there."""
    counts, proof = content.get("counts"), content.get("proof")
    return ReplicaScan(
        **{
            **content,
            "records": tuple(RecordSpan(*each) for each in content["records"]),
            "without_tombstone": tuple(content.get("without_tombstone", ())),
            "residue_places": tuple(content["residue_places"]),
            "hidden_topics": tuple(
                (name, shown) for name, shown in content.get("hidden_topics", ())
            ),
            "troubles": tuple(FileTrouble(*each) for each in content.get("troubles", ())),
            "counts": None if counts is None else RecordCounts(*counts),
            "names": tuple(NameHits(*each) for each in content.get("names", ())),
            "residue_files": tuple(FileHits(*each) for each in content.get("residue_files", ())),
            "kinds": tuple(KindCount(*each) for each in content.get("kinds", ())),
            "partitions": tuple(PartitionScan(*each) for each in content.get("partitions", ())),
            "proof": None if proof is None else _proof_from(*proof),
        }
    )


def _proof_from(
    incarnation_id: str, broker_epoch: int, disks: Sequence[str], hosted: Sequence[Any], count: int
) -> ScanProof:
    places = tuple(HostedAt(*each) for each in hosted)
    return ScanProof(incarnation_id, broker_epoch, tuple(disks), places, count)


def _id_of(key: bytes) -> str:
    erasure_id = key.decode("ascii", errors="replace")
    if not is_id(erasure_id):
        raise CorruptRecord(f"a journal key of {len(key)} bytes is no erasure id: {key[:32].hex()}")
    return erasure_id
