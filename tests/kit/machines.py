"""A machine with one log directory that can be forked, killed, unplugged and started again."""

import copy
from dataclasses import dataclass, field

from ledgerstone.errors import KafkaError, LogStorageError
from ledgerstone.records.batch import read_header, stamp_offset_and_epoch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.validation import Origin
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.storage.log import AppendResult, PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.storage.log_shrink import delete_old_segments, swap_segments
from tests.kit.compaction import rewrite_segments, rewritten
from tests.kit.ledger import Ledger
from tests.kit.log_checks import batches_of, check_aborted, check_log, leftovers, replayed
from tests.kit.logs import T0, TP, batch

DATA = "/data"
TOPIC_ID = bytes(range(1, 17))
# Three or four batches a segment, and an index entry for most of them.
SMALL = LogConfig(segment_bytes=330, index_interval_bytes=60, file_delete_delay_ms=60_000)


def _new_disk() -> SimFilesystem:
    return SimFilesystem(dice=SeededDice(0), clock=VirtualClock(start_ms=T0))


@dataclass(slots=True)
class Machine:
    """All calls to the log go through here, so that the ledger records them too."""

    config: LogConfig = SMALL
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(start_ms=T0))
    fs: SimFilesystem = field(default_factory=_new_disk)
    ledger: Ledger = field(default_factory=Ledger)
    leader_epoch: int = 0
    _log_dir: LogDir | None = None

    @property
    def log_dir(self) -> LogDir:
        assert self._log_dir is not None, "not started"
        return self._log_dir

    @property
    def log(self) -> PartitionLog:
        return self.log_dir.logs[TP]

    def fork(self, seed: str) -> "Machine":
        """The same disk in a machine of its own; nothing runs on it yet."""
        fs = self.fs.clone(dice=SeededDice(seed))
        clock = copy.copy(self.clock)
        return Machine(self.config, clock, fs, self.ledger.copy(), self.leader_epoch)

    # -- life cycle ---------------------------------------------------------------------------

    def start(self) -> None:
        """Opens the directory, and the partition even if it is missing."""
        self._log_dir = open_log_dir(self.fs, self.clock, SeededDice(7), DATA)
        for _ in self._log_dir.load(lambda _: self.config):
            pass
        if TP not in self._log_dir.logs:
            self._log_dir.create(TP, self.config, topic_id=TOPIC_ID)

    def stop(self) -> None:
        self.log_dir.close()
        if self.log.failure is None:
            self.ledger.durable = self.ledger.acked

    def kill(self) -> None:
        self.fs.kill()
        self.fs.clear_faults()

    def lose_power(self, mode: PowerLoss) -> None:
        self.fs.power_loss(mode)
        self.fs.clear_faults()

    def is_write(self, n: int) -> bool:
        return n <= len(self.fs.trace) and self.fs.trace[n - 1].startswith("pwrite")

    def is_fsync(self, n: int) -> bool:
        return n <= len(self.fs.trace) and self.fs.trace[n - 1].startswith("fsync ")

    # -- what is done to the log --------------------------------------------------------------

    def append(self, data: bytearray, *, origin: Origin = Origin.CLIENT) -> AppendResult:
        """The ledger learns of the batch first: a crash may leave it behind unacknowledged."""
        leader_epoch = self.leader_epoch
        stamped = bytearray(data)
        stamp_offset_and_epoch(
            stamped, 0, base_offset=self.log.log_end_offset, leader_epoch=leader_epoch
        )
        self.ledger.batches.append(bytes(stamped))
        try:
            result = self.log.append_as_leader(data, leader_epoch=leader_epoch, origin=origin)
        except KafkaError as error:
            if not isinstance(error, LogStorageError) or self.log.failure is None:
                # Refused or undone: it is not in the log. Once the log has failed, that is unknown.
                self.ledger.batches.pop()
            raise
        self._acknowledged()
        return result

    def append_keys(self, *keys: str, value: str | None = "v", leader_epoch: int = 0) -> None:
        """The epoch counts for everything after it too; epochs only rise."""
        self.leader_epoch = max(self.leader_epoch, leader_epoch)
        for key in keys:
            self.append(batch((key, value)))

    def append_txn(self, producer_id: int, sequence: int, *keys: str) -> None:
        pairs = [(key, "txn") for key in keys]
        self.append(
            batch(
                *pairs,
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )
        )

    def append_marker(self, producer_id: int, *, commit: bool) -> None:
        marker = end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=self.clock.now_ms(),
        )
        self.append(marker, origin=Origin.COORDINATOR)

    def _acknowledged(self) -> None:
        self.ledger.acked = self.log.log_end_offset
        self.ledger.durable = max(self.ledger.durable, self.log.recovery_point)

    def flush(self) -> None:
        self.log.flush()
        self.ledger.durable = self.ledger.acked

    def truncate_to(self, offset: int) -> None:
        self.ledger.allow_cut(offset)
        self.log_dir.truncate_to(TP, offset)
        self.ledger.cut(offset)

    def start_anew_at(self, offset: int) -> None:
        self.ledger.allow_cut(0)
        self.log_dir.truncate_fully_and_start_at(TP, offset)
        self.ledger.batches.clear()

    def delete_old_segments(self) -> None:
        headers = [read_header(batch) for batch in self.ledger.batches]
        # How many segments will go is unknown until it is done; even the active one may.
        self.ledger.may_be_gone = len(headers)
        self.ledger.start_moves = True
        delete_old_segments(self.log)
        first = self.log.segments.first.base_offset
        gone = sum(header.last_offset < first for header in headers)
        del self.ledger.batches[:gone]
        self.ledger.may_be_gone = 0

    def delete_records(self, offset: int) -> None:
        self.ledger.start_moves = True
        self.log.raise_log_start_offset(offset)
        self.log_dir.checkpoint_log_start_offsets()
        self.ledger.log_start_offset = offset

    def swap(self, first: int, count: int, *, drop_tombstones: bool, keep_tail: bool) -> None:
        """Compacts some segments into one."""
        log = self.log
        sources = list(log.segments)[first : first + count]
        new = rewritten(log, sources, drop_tombstones=drop_tombstones, keep_tail=keep_tail)
        cleaned = rewrite_segments(
            log, sources, drop_tombstones=drop_tombstones, keep_tail=keep_tail
        )
        below = _batches_between(self.ledger.batches, 0, sources[0].base_offset)
        # Where the tail was dropped, nothing says how far the new segment reached: sources past
        # its end may stay until the next pass. They are deleted in ascending order.
        starts = [
            source.base_offset for source in sources if cleaned.next_offset() <= source.base_offset
        ]
        following = log.segments.after(sources[-1].base_offset)
        assert following is not None
        for start in [following.base_offset, *starts]:
            rest = _batches_between(self.ledger.batches, start, self.ledger.end_offset)
            self.ledger.rewritten.append(below + new + rest)
        swap_segments(log, new=[cleaned], old=sources)
        self.ledger.batches = self.ledger.rewritten[0]
        self.ledger.rewritten = []
        self.ledger.durable = max(self.ledger.durable, log.recovery_point)

    # -- what must be true afterwards ---------------------------------------------------------

    def check(self, *, power_lost: bool) -> None:
        """Checks a machine that has just started, then that it works: stops, starts, appends."""
        promised = self.ledger.durable if power_lost else self.ledger.acked
        content = self._check_content(power_lost=power_lost)
        entries = self.log.producers.entries()
        self.log_dir.close()
        self.start()
        assert batches_of(self.log) == content
        assert self.log.producers.entries() == entries
        self._check_content(power_lost=power_lost)
        self._check_appends(promised)

    def _check_content(self, *, power_lost: bool) -> list[bytes]:
        check_log(self.log)
        assert leftovers(self.fs, DATA, self.log_dir.logs.values()) == []
        content = batches_of(self.log)
        self.ledger.verify(content, power_lost=power_lost)
        assert self.log.log_start_offset >= self.ledger.log_start_offset
        self._check_epochs(content)
        if self.log.log_start_offset == 0:
            producers, _ = replayed(content)
            assert self.log.producers.entries() == producers.entries()
            check_aborted(self.log)
        return content

    def _check_epochs(self, content: list[bytes]) -> None:
        for header in map(read_header, content):
            if header.base_offset >= self.log.log_start_offset:
                epoch = self.log.epochs.epoch_for_offset(header.base_offset)
                forgotten = epoch is None and self.ledger.start_moves
                assert epoch == header.leader_epoch or forgotten, (epoch, header)

    def _check_appends(self, promised: int) -> None:
        end_offset = self.log.log_end_offset
        assert end_offset >= promised
        data = batch(("after", "crash"))
        result = self.log.append_as_leader(data, leader_epoch=9)
        assert result.first_offset == end_offset
        assert batches_of(self.log)[-1] == bytes(data)
        assert read_header(data).base_offset == end_offset


def _batches_between(batches: list[bytes], start_offset: int, end_offset: int) -> list[bytes]:
    return [
        batch for batch in batches if start_offset <= read_header(batch).base_offset < end_offset
    ]
