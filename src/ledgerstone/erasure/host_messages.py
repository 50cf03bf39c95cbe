"""What brokers tell each other for erasures, as bytes. Grade P.

The contents of ErasureWork: JSON, and whatever comes from another broker is looked at against its
types before it is used. Clocks differ, so times travel as what they are ahead of the sender's, and
come back as times of the reader. Contract: README.md, "Several brokers".
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import asdict
from ledgerstone.erasure.erasure import ReplicaScan
from ledgerstone.erasure.facts import BlockingTxn, PartitionFacts
from ledgerstone.erasure.journal import scan_from
from ledgerstone.erasure.key_print import KeyPrint
from ledgerstone.erasure.scan_messages import report_message, report_of
from ledgerstone.erasure.scan_plan import KeyPrints, SearchReport
from ledgerstone.erasure.shape import check_shape
from ledgerstone.errors import InvalidRequest
from ledgerstone.types import NO_LEADER_EPOCH

# Of questions in one request, of writes, and of erasures in one search or scan.
MAX_QUESTIONS: Final = 500
MAX_WRITES: Final = 200
MAX_KEYS: Final = 2_000
# Of one answer's content, and of the whole result of a job.
CHUNK_BYTES: Final = 4 << 20
MAX_RESULT_BYTES: Final = 256 << 20
_PAST: Final = ("last_pass_started_ms", "leftovers_since_ms")
_FUTURE: Final = ("horizon_ms", "opens_at_ms", "leftovers_go_at_ms")
# Clocks that are so close count as one: what lies ahead then keeps its time from word to word.
_SAME_CLOCK_MS: Final = 1_000
_MALFORMED: Final = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class WorkKind(IntEnum):
    FACTS = 1  # how far replicas are with tombstones
    GROUPS = 2  # what groups have committed
    GONE = 3  # what is left of topics that are not there any more
    ASK = 4  # have replicas compacted
    ABORT = 5  # end the open transaction of a producer
    START = 6  # begin a job: a search, a scan, or writing tombstones
    RESULT = 7  # what came of a job, from a position on
    SECRETS = 8  # whether secrets are there, and whose
    GIVE_SECRETS = 9
    API = 10  # a call of the JSON API, for the broker that leads the journal
    AUDIT = 11  # lines of the asker's audit log, for the broker that leads `__audit`


class TombstoneQuestion(NamedTuple):
    """About one tombstone, to a broker with a replica of its partition."""

    topic: str
    topic_id: str
    partition: int
    offset: int
    stage: str
    since_ms: int  # when the stage was reached

    @property
    def place(self) -> tuple[str, int, int, str]:
        return self.topic, self.partition, self.offset, self.stage


class ReplicaWord(NamedTuple):
    """The answer. `missed` are groups that passes here removed tombstones before."""

    facts: PartitionFacts
    missed: tuple[tuple[str, int], ...] = ()


class ReplicaEnd(NamedTuple):
    """How far a replica reached when its search began."""

    partition: int
    end_offset: int
    high_watermark: int
    is_leader: bool
    leader_epoch: int = NO_LEADER_EPOCH


class SearchWord(NamedTuple):
    ends: tuple[ReplicaEnd, ...]
    report: SearchReport


class TombstoneWrite(NamedTuple):
    topic: str
    topic_id: str
    partition: int
    key: bytes
    headers: tuple[tuple[str, bytes | None], ...]
    short_headers: tuple[tuple[str, bytes | None], ...]  # where the others do not fit
    erasure_id: str


class WrittenTombstone(NamedTuple):
    offset: int  # -1 where it was refused
    written_ms: int
    refusal: str = ""
    leader_epoch: int = NO_LEADER_EPOCH


class TombstoneAt(NamedTuple):
    """Where an erasure's tombstone was written, and under which leader."""

    partition: int
    offset: int
    leader_epoch: int


class ScanOrder(NamedTuple):
    erasure_id: str
    topic: str
    topic_id: str
    tombstones: tuple[TombstoneAt, ...] = ()


# -- how it is said -------------------------------------------------------------------------------


def encoded(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def decoded(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"{len(data)} bytes that are no JSON: {type(error).__name__}"
        ) from None
    if not isinstance(content, dict):
        raise InvalidRequest("not a JSON object")
    return content


def checked(what: str, value: object, hint: Any) -> None:  # noqa: ANN401 - a type
    try:
        check_shape(value, hint)
    except TypeError as error:
        raise InvalidRequest(f"{what}: {error}") from None


# -- facts ----------------------------------------------------------------------------------------


def questions_json(questions: Sequence[TombstoneQuestion], *, now_ms: int) -> dict[str, Any]:
    return {"questions": [[*each[:5], each.since_ms - now_ms] for each in questions]}


def questions_of(content: Mapping[str, Any], *, now_ms: int) -> list[TombstoneQuestion]:
    try:
        found = [
            TombstoneQuestion(topic, topic_id, partition, offset, stage, ahead_ms + now_ms)
            for topic, topic_id, partition, offset, stage, ahead_ms in content["questions"]
        ]
    except _MALFORMED as error:
        raise InvalidRequest(f"no questions: {type(error).__name__}") from None
    if len(found) > MAX_QUESTIONS:
        raise InvalidRequest(f"{len(found)} questions, at most {MAX_QUESTIONS}")
    checked("questions", tuple(found), tuple[TombstoneQuestion, ...])
    return found


def words_json(words: Sequence[ReplicaWord | None], *, now_ms: int) -> dict[str, Any]:
    told = [None if each is None else _word_json(each, now_ms) for each in words]
    return {"now_ms": now_ms, "words": told}


def _word_json(word: ReplicaWord, now_ms: int) -> list[Any]:
    return [list(_shifted(word.facts, -now_ms, -now_ms)), word.missed]


def words_of(content: Mapping[str, Any], *, now_ms: int) -> list[ReplicaWord | None]:
    """`now_ms` is when they were asked for: what is told as past is not made younger."""
    try:
        there_ms = int(content["now_ms"])
        ahead_ms = there_ms if abs(there_ms - now_ms) < _SAME_CLOCK_MS else now_ms
        words = [
            None if each is None else _word_of(each, now_ms, ahead_ms) for each in content["words"]
        ]
    except _MALFORMED as error:
        raise InvalidRequest(f"no words about replicas: {type(error).__name__}") from None
    checked("words", tuple(words), tuple[ReplicaWord | None, ...])
    return words


def _word_of(content: Sequence[Any], now_ms: int, ahead_ms: int) -> ReplicaWord:
    fields, missed = content
    facts = PartitionFacts(*fields)
    facts = facts._replace(abortable_txns=tuple(BlockingTxn(*each) for each in facts[8]))
    return ReplicaWord(
        _shifted(facts, now_ms, ahead_ms),
        tuple((str(group), int(offset)) for group, offset in missed),
    )


def _shifted(facts: PartitionFacts, past_ms: int, future_ms: int) -> PartitionFacts:
    shifts = {**dict.fromkeys(_PAST, past_ms), **dict.fromkeys(_FUTURE, future_ms)}
    times: dict[str, Any] = {name: getattr(facts, name) for name in shifts}
    return facts._replace(
        **{name: value + shifts[name] for name, value in times.items() if value is not None}
    )


# -- jobs -----------------------------------------------------------------------------------------


def keys_json(keys: KeyPrints) -> dict[str, Any]:
    return {
        "prints": [each.to_json() for each in keys.prints],
        "sip_seed": keys.sip_seed.hex(),
        "rolling_base": f"{keys.rolling_base:x}",
    }


def keys_of(content: Mapping[str, Any]) -> KeyPrints:
    try:
        prints = tuple(KeyPrint.from_json(each) for each in content["prints"])
        seed, base = bytes.fromhex(content["sip_seed"]), int(content["rolling_base"], 16)
    except _MALFORMED as error:
        raise InvalidRequest(f"no prints of keys: {type(error).__name__}") from None
    if len(prints) > MAX_KEYS or len(seed) != 16 or not 0 < base < 1 << 64:
        raise InvalidRequest(f"{len(prints)} prints, or secrets that are none")
    return KeyPrints(prints=prints, sip_seed=seed, rolling_base=base)


def search_word_json(word: SearchWord) -> dict[str, Any]:
    return {"ends": word.ends, **report_message(word.report)}


def search_word_of(content: Mapping[str, Any]) -> SearchWord:
    try:
        report = report_of({"kind": "searched", "report": content["report"]})
        ends = tuple(ReplicaEnd(*each) for each in content["ends"])
    except _MALFORMED as error:
        raise InvalidRequest(f"no report of a search: {type(error).__name__}") from None
    checked("a search", report, SearchReport)
    checked("a search", ends, tuple[ReplicaEnd, ...])
    assert isinstance(report, SearchReport)
    return SearchWord(ends, report)


def scans_json(scans: Sequence[ReplicaScan]) -> dict[str, Any]:
    return {"scans": [asdict(each) for each in scans]}


def scans_of(content: Mapping[str, Any]) -> list[ReplicaScan]:
    try:
        scans = [scan_from(each) for each in content["scans"]]
    except _MALFORMED as error:
        raise InvalidRequest(f"no scans: {type(error).__name__}") from None
    checked("scans", tuple(scans), tuple[ReplicaScan, ...])
    return scans


def writes_json(writes: Sequence[TombstoneWrite]) -> dict[str, Any]:
    return {"writes": [_write_json(each) for each in writes]}


def _write_json(write: TombstoneWrite) -> list[Any]:
    return [
        write.topic,
        write.topic_id,
        write.partition,
        _base64(write.key),
        [[name, _base64(value or b"")] for name, value in write.headers],
        [[name, _base64(value or b"")] for name, value in write.short_headers],
        write.erasure_id,
    ]


def writes_of(content: Mapping[str, Any]) -> list[TombstoneWrite]:
    try:
        found = [_write_of(*each) for each in content["writes"]]
    except _MALFORMED as error:
        raise InvalidRequest(f"no tombstones: {type(error).__name__}") from None
    if len(found) > MAX_WRITES:
        raise InvalidRequest(f"{len(found)} tombstones, at most {MAX_WRITES}")
    checked("tombstones", tuple(found), tuple[TombstoneWrite, ...])
    return found


def _write_of(
    topic: str,
    topic_id: str,
    partition: int,
    key: str,
    headers: Sequence[tuple[str, str]],
    short: Sequence[tuple[str, str]],
    erasure_id: str,
) -> TombstoneWrite:
    long = tuple((name, b64decode(value, validate=True)) for name, value in headers)
    brief = tuple((name, b64decode(value, validate=True)) for name, value in short)
    data = b64decode(key, validate=True)
    return TombstoneWrite(topic, topic_id, partition, data, long, brief, erasure_id)


def written_json(written: Sequence[WrittenTombstone], *, now_ms: int) -> dict[str, Any]:
    return {"written": [each._replace(written_ms=each.written_ms - now_ms) for each in written]}


def written_of(content: Mapping[str, Any], count: int, *, now_ms: int) -> list[WrittenTombstone]:
    try:
        found = [
            WrittenTombstone(offset, ahead_ms + now_ms, *others)
            for offset, ahead_ms, *others in content["written"]
        ]
    except _MALFORMED as error:
        raise InvalidRequest(f"no word of tombstones: {type(error).__name__}") from None
    checked("tombstones", tuple(found), tuple[WrittenTombstone, ...])
    if len(found) != count:
        raise InvalidRequest(f"a word of {len(found)} tombstones, {count} were sent")
    return found


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")
