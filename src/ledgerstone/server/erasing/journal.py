"""The journal of erasures on disk: the topic `__erasures`, appended to and replayed. Grade D.

The book changes by replay alone, after the records are durable and committed. Beside the erasures
the topic holds one record that names the secrets they were printed under, since with others no key
would be found again and every scan would seem clean, and one that lists its own breaks. A record
that is damaged or not the broker's is named and left out; the others go on. Contract:
erasure/README.md, "Journal" and "Chain".
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import Erasure
from ledgerstone.erasure.journal import (
    SECRETS_KEY,
    ErasureBook,
    JournalRecord,
    record_of,
)
from ledgerstone.erasure.journal_breaks import (
    BREAKS_KEY,
    Break,
    acknowledged,
    decode_breaks,
    encode_breaks,
    with_found,
)
from ledgerstone.erasure.journal_chain import CHAIN_HEADER, Chain, ChainLink, JournalMark, header_in
from ledgerstone.erasure.journal_mark import MarkFile
from ledgerstone.erasure.mark_slot import MARK_FILE
from ledgerstone.errors import CorruptRecord, KafkaError, LogStorageError
from ledgerstone.fs import join
from ledgerstone.records.builder import RecordParts
from ledgerstone.records.validation import Origin
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.replay_reader import replay_batches
from ledgerstone.replication.state_log import StateLog
from ledgerstone.server.erasing.journal_topic import JOURNAL, JournalTopic
from ledgerstone.server.erasing.needs import Appends
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_dir import LogDir

_LOG: Final = logging.getLogger(__name__)
_SECRETS_VERSION: Final = 1
# Of records in one batch; a record of its own may be larger, up to the topic's limit.
_BATCH_BYTES: Final = 1 << 20


class ChangeInFlight(LogStorageError):
    """Replicas have to take the last change first; it is true then, whoever asked for it.

    `is_written`: this very change is in the log, and waits for them."""

    def __init__(self, *, is_written: bool) -> None:
        super().__init__(f"{JOURNAL}: a change is written and not committed yet")
        self.is_written = is_written


class SealedAt(NamedTuple):
    """Where the journal holds a sealed key, and the record that makes it superfluous."""

    offset: int
    superseded_at: int | None


class _Read(NamedTuple):
    """A record of the log, or why there is none at an offset."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    link: bytes | None = None
    problem: str | None = None


@dataclass(slots=True, kw_only=True)
class ErasureJournal:
    clock: Clock
    log_dir: LogDir
    topic: JournalTopic
    appends: Appends
    # Told of each erasure that a committed change has made; not at a load.
    on_change: Callable[[Erasure], None] = lambda erasure: None
    book: ErasureBook = field(default_factory=ErasureBook)
    # What the secrets were whose prints the book holds: their public key, hexadecimal.
    secrets_name: str | None = None
    sealed: dict[str, SealedAt] = field(default_factory=dict)
    unfinished: dict[str, None] = field(default_factory=dict)  # ids, the oldest first
    breaks: list[Break] = field(default_factory=list)
    chain: Chain | None = None  # None until the secrets are known
    mark_trouble: str | None = None  # why it is not remembered how far the journal has gone
    _mark_file: MarkFile = field(init=False)
    # Found by this start, and not written down yet; and what a foreign record stands in front of.
    _has_news: bool = False
    _to_write_again: dict[str, None] = field(default_factory=dict)
    # Changes that are not committed yet, and the partition they were appended to.
    _log: StateLog["_Placed"] | None = None
    _partition: Partition | None = None

    def __post_init__(self) -> None:
        self._mark_file = MarkFile(self.log_dir.fs, join(self.log_dir.path, MARK_FILE))

    def blank(self) -> "ErasureJournal":
        """A journal of the same topic of which nothing is read yet."""
        return ErasureJournal(
            clock=self.clock,
            log_dir=self.log_dir,
            topic=self.topic,
            appends=self.appends,
            on_change=self.on_change,
        )

    # -- life cycle ---------------------------------------------------------------------------

    def load(self, chain_key: bytes | None) -> bool:
        """At start. Without the key the links are not looked at. False where there are links and
        none is of this key: then the secrets are others, and nothing was read."""
        mark = self._mark_file.read()
        chain = None if chain_key is None else Chain(chain_key, mark)
        problems: list[str] = []
        has_links = False
        if self.topic.exists:
            self.topic.restore_configs()
            for each in _records(self.topic.partition().log):
                has_links |= each.link is not None
                problem = self._load_one(each, chain)
                if problem is not None:
                    problems.append(f"offset {each.offset}: {problem}")
        if chain is not None:
            if has_links and not chain.linked:
                return False
            problems += chain.problems_at_end(may_lack_mark=self.topic.is_replicated)
            chain.go_on_after(mark)
        self.chain = chain
        self._found(problems)
        return True

    def _load_one(self, each: _Read, chain: Chain | None) -> str | None:
        """What is wrong with it."""
        if each.problem is not None or each.key is None:
            return each.problem or "it has no key"
        problem = None
        if chain is not None:
            taken = chain.take(each.key, each.value, each.link)
            if not taken.counts:
                self._to_write_again[each.key.decode("ascii", "replace")] = None
                return taken.problem
            problem = taken.problem
        try:
            self._replay(each.offset, each.key, each.value)
        except CorruptRecord as error:
            return str(error)
        return problem

    def _found(self, problems: Sequence[str]) -> None:
        known = [each.reason for each in self.breaks]
        self.breaks = with_found(self.breaks, problems, now_ms=self.clock.now_ms())
        for each in self.breaks[len(known) :]:
            self._has_news = True
            _LOG.error("journal of erasures broken partition=%s reason=%s", JOURNAL, each.reason)

    @property
    def is_committed(self) -> bool:
        """Whether all that the log holds is committed: then none of it can be lost again."""
        partition = self.topic.hosted()
        if partition is None:
            # Not there yet, or offline; loading says which.
            return True
        return partition.log.high_watermark >= partition.log.log_end_offset

    def committed_name(self) -> str | None:
        """The secrets that the replica here names below its high watermark, read from its log:
        for a follower, which has replayed nothing."""
        partition = self.topic.hosted()
        name: str | None = None
        for each in () if partition is None else _records(partition.log):
            if partition is not None and each.offset >= partition.log.high_watermark:
                break
            if each.key == SECRETS_KEY:
                name = _name_in(each.value)
        return name

    @property
    def is_empty(self) -> bool:
        has_mark = self._mark_file.mark is not None
        return not (len(self.book) or self.secrets_name or self.breaks or has_mark)

    def settle(self, public_key: bytes) -> None:
        """After a load: what was found is written down, an older journal gets its chain, and a
        foreign record does not take the place of the one it stands in front of."""
        assert self.chain is not None
        again = [self.book.get(each) for each in self._to_write_again]
        self._to_write_again.clear()
        if not self.chain.linked or self.secrets_name is None:
            self.name_secrets(public_key)
        if again or self._has_news:
            self.append([each for each in again if each is not None])
        # What a killed process has appended may be read before it is on disk.
        self.topic.partition().log.flush()
        self._remember()

    def suspect_sealed_copies(self) -> None:
        """Other replicas may hold sealed keys that are compacted away here: of no erasure under way
        it is known until all have been compacted from here on."""
        partition = self.topic.hosted()
        if partition is None:
            return
        end_offset = partition.log.log_end_offset
        for erasure_id in self.unfinished:
            if erasure_id not in self.sealed and self.get(erasure_id).sealed_key is None:
                self.sealed[erasure_id] = SealedAt(end_offset, end_offset - 1)

    def append(self, erasures: Sequence[Erasure]) -> None:
        """Durable, then true."""
        self._append([record_of(each) for each in erasures])

    def name_secrets(self, public_key: bytes) -> None:
        content = {"version": _SECRETS_VERSION, "public_key": public_key.hex()}
        self._append([JournalRecord(SECRETS_KEY, json.dumps(content).encode())])

    def acknowledge(self, by: str) -> None:
        """Somebody knows of the breaks; they stay in the journal."""
        now_ms = self.clock.now_ms()
        content = encode_breaks(acknowledged(self.breaks, by=by, now_ms=now_ms))
        self._has_news = False
        self._append([JournalRecord(BREAKS_KEY, content)])

    def get(self, erasure_id: str) -> Erasure:
        """One that is known to be there."""
        erasure = self.book.get(erasure_id)
        assert erasure is not None, erasure_id
        return erasure

    def _append(self, records: Sequence[JournalRecord]) -> None:
        """One change at a time: what is not committed in this turn is refused, as is everything
        until it is; it becomes true then."""
        partition = self.topic.ensure_partition()
        assert self.chain is not None, "the journal without its chain"
        log = self._log_of(partition)
        if len(log):
            raise ChangeInFlight(is_written=False)
        if self._has_news:
            records = [*records, JournalRecord(BREAKS_KEY, encode_breaks(self.breaks))]
        now_ms = self.clock.now_ms()
        linked = list(zip(records, self.chain.links_for(records), strict=True))
        try:
            for chunk in _chunks(linked):
                placed: _Placed = []
                result = log.append([_parts(now_ms, *each) for each in chunk], placed)
                self.appends.appended(JOURNAL, result.size)
                for offset, (record, link) in enumerate(chunk, result.first_offset):
                    # In the log from here on, so no other record may get its number.
                    self.chain.take(*record, link.encode())
                    placed.append((offset, record))
        finally:
            # Also where a later batch was refused.
            # Crash here: what was appended is replayed by the next start, or was never there.
            partition.log.flush()
            self.high_watermark_moved()
        self._has_news = False
        if len(log):
            raise ChangeInFlight(is_written=True)

    @property
    def is_settled(self) -> bool:
        """Whether every change is committed."""
        return self._log is None or not len(self._log)

    def high_watermark_moved(self) -> bool:
        """What is committed becomes true; True if anything did."""
        if self._log is None or self._partition is None:
            return False
        chunks = self._log.committed(self._partition.log.high_watermark)
        for offset, (key, value) in (each for placed in chunks for each in placed):
            self._replay(offset, key, value)
            erasure = self.book.get(key.decode("ascii", "replace"))
            if erasure is not None:
                self.on_change(erasure)
        if chunks and not len(self._log):
            self._remember()
        return bool(chunks)

    def _log_of(self, partition: Partition) -> StateLog["_Placed"]:
        if self._log is None or self._partition is not partition:
            append = partial(partition.append, acks=-1, origin=Origin.COORDINATOR)
            self._log, self._partition = StateLog(append), partition
        return self._log

    def _remember(self) -> None:
        """After the journal is synced, so that it is never behind what is remembered of it."""
        chain, marks = self.chain, self._mark_file
        assert chain is not None
        if marks.mark is not None and marks.mark.sequence >= chain.sequence:
            return
        try:
            # Crash before: the journal is ahead of its mark, which is no harm.
            marks.write(JournalMark(chain.sequence, chain.previous))
        except OSError as error:
            # Nothing is lost; a loss would be noticed later. The next record tries again.
            self.mark_trouble = f"{marks.path} cannot be written: {error}"
            _LOG.error("journal of erasures not marked reason=%s", self.mark_trouble)
        else:
            self.mark_trouble = None

    def _replay(self, offset: int, key: bytes, value: bytes | None) -> None:
        if key == SECRETS_KEY:
            self.secrets_name = _name_in(value)
            return
        if key == BREAKS_KEY:
            self.breaks = [] if value is None else decode_breaks(value)
            return
        self.book.replay(key, value)
        erasure_id = key.decode()
        erasure = self.book.get(erasure_id)
        if erasure is None or erasure.is_over:
            self.unfinished.pop(erasure_id, None)
        else:
            self.unfinished[erasure_id] = None
        if erasure is not None and erasure.sealed_key is not None:
            self.sealed[erasure_id] = SealedAt(offset, None)
        elif erasure_id in self.sealed and self.sealed[erasure_id].superseded_at is None:
            self.sealed[erasure_id] = self.sealed[erasure_id]._replace(superseded_at=offset)


def _name_in(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        name = json.loads(value)["public_key"]
        if bytes.fromhex(name).hex() != name:
            raise ValueError("it is not spelled as we do")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptRecord(f"{len(value)} bytes that name no secrets: {error}") from error
    return str(name)


_Linked = tuple[JournalRecord, ChainLink]
# Records of one batch with their offsets.
_Placed = list[tuple[int, JournalRecord]]


def _parts(now_ms: int, record: JournalRecord, link: ChainLink) -> RecordParts:
    return now_ms, record.key, record.value, ((CHAIN_HEADER, link.encode()),)


def _chunks(records: Iterable[_Linked]) -> Iterator[list[_Linked]]:
    chunk: list[_Linked] = []
    size = 0
    for record, link in records:
        if chunk and size + len(record.value) > _BATCH_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append((record, link))
        size += len(record.value)
    if chunk:
        yield chunk


def _records(log: PartitionLog) -> Iterator[_Read]:
    """Every record; a batch that cannot be read is told by its offset, and the next is read."""
    damaged: list[_Read] = []

    def note(offset: int, error: KafkaError) -> None:
        damaged.append(_Read(offset, problem=f"the batch cannot be read: {error}"))

    for batch in replay_batches(log, on_damage=note):
        yield from damaged
        damaged.clear()
        for record in batch.records:
            yield _Read(record.offset, record.key, record.value, header_in(record.headers))
    yield from damaged
