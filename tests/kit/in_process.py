"""A whole broker without sockets: a simulated disk, a virtual clock, and frames made by our codec.

Effects are performed at once and in order, through the performer that the runtime uses: sent bytes
land in their connection, a flush is synced and reported back, a close is followed by
`disconnected`.
Time passes only through `advance` and `jump`. Same seed, same calls, same effects and same disk.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ledgerstone.cleaner.worker import clean
from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.erasure.scan_messages import report_message, report_of
from ledgerstone.erasure.verifiers import Word
from ledgerstone.erasure.worker import scan
from ledgerstone.protocol.api import OFFERED, ApiKey
from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.framing import FrameReader, frame_prefix
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.pieces import Piece
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Close,
    Dial,
    Effect,
    Flush,
    GiveUp,
    Halt,
    Hangup,
    Persist,
    Proceed,
    Resume,
    Send,
    StartScan,
    SyncSwap,
    Unlink,
    WriteSnapshot,
)
from ledgerstone.server.erasing.scans import ScanFailed, ScanResult
from ledgerstone.server.formatting.plan import FormatOptions, plan_format
from ledgerstone.server.formatting.writing import write_format
from ledgerstone.server.opening import Surroundings, open_broker
from ledgerstone.server.performer import Performer, Synced
from ledgerstone.server.quorum.snapshot_writing import write_snapshot
from ledgerstone.server.results import (
    AnalysisFailed,
    DialFailed,
    Dialled,
    Done,
    Failed,
    GroupCleaned,
    Result,
    VerifierFailed,
    VerifierSaid,
)
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.storage.deleted_files import unlink_all
from ledgerstone.storage.sync_plan import sync_all
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0

if TYPE_CHECKING:
    from ledgerstone.server.anatomy.worker import Memory

# Of a longer time, `advance` leaves ticks out.
EACH_TICK_UP_TO_MS = 600_000
MOST_TICKS = 60

DATA = "/data"
CLUSTER_ID = "TGVkZ2Vyc3RvbmVHb2xkZQ"
ADDRESS = Listener("PLAINTEXT", "broker.example", 9092)
# Few partitions for coordinators, as each is a log to make; rebalances that wait for nobody.
SETTINGS = {
    "log.dirs": DATA,
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}

R = TypeVar("R", bound=ApiMessage)


def frame_of(
    message: ApiMessage, version: int, correlation_id: int = 0, client_id: str | None = "test"
) -> bytes:
    """A request as it travels, with its size in front."""
    header = RequestHeader(message.api_key, version, correlation_id, client_id)
    body = b"".join(_bytes_of(piece) for piece in encode_request(message, version))
    content = encode_request_header(header) + body
    return frame_prefix(len(content)) + content


# The last version that names topics by their names, as tests do.
_BY_NAME = {ApiKey.PRODUCE: 12}


def newest_version(message: ApiMessage) -> int:
    return _BY_NAME.get(ApiKey(message.api_key), OFFERED[message.api_key].last)


def _bytes_of(piece: Piece) -> bytes:
    if isinstance(piece, bytes | bytearray | memoryview):
        return bytes(piece)
    read: Any = piece  # a file slice, the only thing that is sent by reference
    content: bytes = read.read()
    return content


@dataclass(slots=True, eq=False)
class Client:
    """One connection. What it was answered waits in `answers` until somebody takes it."""

    machine: "InProcess"
    number: int
    closed: str | None = None
    client_id: str | None = "test"
    answers: list[tuple[int, ApiMessage]] = field(default_factory=list)
    received_bytes: int = 0
    _asked: list[tuple[int, int, int]] = field(default_factory=list)
    _next_correlation_id: int = 0
    _reader: FrameReader = field(default_factory=lambda: FrameReader(INT32_MAX))

    def ask(self, message: ApiMessage, kind: type[R], version: int | None = None) -> R:
        """Sends a request and takes its answer, which must be there at once."""
        self.send(message, version)
        return self.take(kind)

    def send(
        self, message: ApiMessage, version: int | None = None, *, expects_answer: bool = True
    ) -> int:
        """Sends a request; returns its correlation id."""
        correlation_id, data = self.frame(message, version, expects_answer=expects_answer)
        self.feed(data)
        return correlation_id

    def frame(
        self, message: ApiMessage, version: int | None = None, *, expects_answer: bool = True
    ) -> tuple[int, bytes]:
        """A request that is counted but not sent yet: feed it whole, in parts, or with others."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        number = newest_version(message) if version is None else version
        if expects_answer:
            self._asked.append((correlation_id, message.api_key, number))
        return correlation_id, frame_of(message, number, correlation_id, self.client_id)

    def feed(self, data: bytes) -> None:
        # The runtime's buffer is writable, shared, and overwritten after the call.
        buffer = bytearray(data)
        self.machine.perform(self.machine.broker.receive(self.number, memoryview(buffer)))
        buffer[:] = b"\xee" * len(buffer)
        self.machine.serve_backlog()

    def take(self, kind: type[R]) -> R:
        assert self.closed is None, f"closed: {self.closed}"
        assert self.answers, "no answer yet"
        _, message = self.answers.pop(0)
        assert isinstance(message, kind), message
        return message

    @property
    def is_waiting(self) -> bool:
        """Nothing to take, and still connected."""
        return not self.answers and self.closed is None

    def leave(self) -> None:
        self.closed = "left"
        self.machine.perform(self.machine.broker.disconnected(self.number))

    def deliver(self, pieces: Iterable[Piece]) -> bytes:
        data = b"".join(map(_bytes_of, pieces))
        self.received_bytes += len(data)
        for frame in self._reader.feed(data):
            self.answers.append(self._decoded(frame))
        return data

    def _decoded(self, frame: memoryview) -> tuple[int, ApiMessage]:
        correlation_id, api_key, version = self._asked.pop(0)
        assert peek_correlation_id(frame) == correlation_id, "answered out of order"
        position = response_body_position(api_key, version, frame)
        return correlation_id, decode_response(api_key, version, frame, position)


class RawClient(Client):
    """Sends what is no request; keeps frames as they come, since nobody knows what they answer."""

    def _decoded(self, frame: memoryview) -> tuple[int, ApiMessage]:
        return peek_correlation_id(frame), ApiMessage()


@dataclass(slots=True, eq=False)
class DialledLine:
    """The far end of a connection that the broker opened."""

    machine: "InProcess"
    number: int
    dial: Dial
    received: bytearray = field(default_factory=bytearray)
    is_open: bool = True

    def deliver(self, pieces: Iterable[Piece]) -> bytes:
        data = b"".join(map(_bytes_of, pieces))
        self.received += data
        return data

    def say(self, data: bytes) -> None:
        buffer = bytearray(data)
        broker, view = self.machine.broker, memoryview(buffer)
        self.machine.perform(broker.received_from_dialled(self.dial, self.number, view))
        buffer[:] = b"\xee" * len(buffer)

    def hang_up(self) -> None:
        self.is_open = False
        del self.machine.dialled[self.number]
        reason = "the other side hung up"
        self.machine.perform(self.machine.broker.lost_dialled(self.dial, self.number, reason))


class InProcess:
    """`settings` are broker keys. The disk and the clock outlive the broker; see `kill`."""

    def __init__(
        self,
        seed: int = 0,
        settings: dict[str, str] | None = None,
        advertised: Sequence[Listener] = (ADDRESS,),
    ) -> None:
        self.advertised = advertised
        self.clock = VirtualClock(start_ms=T0)
        self.dice = SeededDice(f"{seed}/broker")
        self.fs = SimFilesystem(dice=SeededDice(f"{seed}/disk"), clock=self.clock)
        self.config = BrokerConfig.from_raw({**SETTINGS, **(settings or {})})
        self.clients: dict[int, Client] = {}
        # One line an effect, for comparing runs.
        self.trace: list[str] = []
        # Flushes are performed at once unless a test wants to hold them back.
        self.held_flushes: list[Flush] | None = None
        self.held_syncs: list[SyncSwap] | None = None
        self.held_unlinks: list[Unlink] | None = None
        self._synced: dict[int, Synced] = {}
        # The same for cleaning passes; and what the owner last said about each.
        self.held_passes: list[Clean] | None = None
        self.called_off: dict[int, bool] = {}
        # Passes whose worker the owner wants killed; a test says when it is dead.
        self.given_up: list[GiveUp] = []
        self.halted: list[str] = []
        # The same for searches and scans; and what each verifier says when it is asked.
        self.held_scans: list[StartScan] | None = None
        self.scans_done: list[StartScan] = []
        self.verifiers: dict[str, Sequence[Word] | str] = {}
        # Addresses that take a `Dial`, and the far ends of the connections that were opened.
        self.listening: set[tuple[str, int]] = set()
        self.dialled: dict[int, DialledLine] = {}
        self.take_its_own_hands()
        self._next_number = 1
        # How often the machine lost its power: the broker knows a crash of its own from that.
        self.boots = 0
        self._analyses: Memory | None = None
        self.broker: Broker
        if self.config.cluster.is_configured:
            options = FormatOptions(cluster_id=CLUSTER_ID)
            plan = plan_format(self.config, options, SeededDice(f"{seed}/format"))
            write_format(self.fs, self.clock, plan)
        self.start()

    # -- life cycle ---------------------------------------------------------------------------

    def start(self) -> None:
        boot_id = f"boot {self.boots}"
        world = Surroundings(fs=self.fs, clock=self.clock, dice=self.dice, boot_id=boot_id)
        self.broker = open_broker(self.config, world, self.advertised)

    def stop(self) -> None:
        """As the runtime stops it: connections first, the clean marker last."""
        for client in list(self.clients.values()):
            client.leave()
        self.clients.clear()
        self.broker.log_dirs.close()

    def take_its_own_hands(self) -> None:
        """For a copy: its effects are performed by itself, not by the original."""
        self._performer = Performer(self, self._completed)

    def kill(self) -> None:
        """The process dies and a new one starts on the same page cache."""
        self.clients.clear()
        self.fs.kill()
        self.fs.clear_faults()
        self.start()

    def lose_power(self, mode: PowerLoss = "none") -> None:
        self.clients.clear()
        self.fs.power_loss(mode)
        self.fs.clear_faults()
        self.boots += 1
        self.start()

    # -- clients ------------------------------------------------------------------------------

    def connect(self, host: str = "10.0.0.1", listener: str = ADDRESS.name) -> Client:
        return self._connect(Client(self, self._take_number()), host, listener)

    def connect_raw(self, host: str = "10.0.0.1") -> RawClient:
        client = RawClient(self, self._take_number())
        self._connect(client, host)
        return client

    def _take_number(self) -> int:
        self._next_number += 1
        return self._next_number - 1

    def _connect(self, client: Client, host: str, listener: str = ADDRESS.name) -> Client:
        self.clients[client.number] = client
        self.perform(self.broker.connected(client.number, host, listener))
        return client

    # -- effects: `performer.Hands` -----------------------------------------------------------

    def perform(self, effects: Iterable[Effect]) -> None:
        self._performer.perform(effects)

    def report(self, effect: Effect, result: Result) -> None:
        self._performer.report(effect, result)

    def _completed(self, effect: Effect, result: Result) -> list[Effect]:
        return self.broker.completed(effect, result)

    def send(self, sends: list[Send]) -> None:
        for number, pieces in sends:
            if number in self.dialled:
                data = self.dialled[number].deliver(pieces)
            else:
                data = self.clients[number].deliver(pieces)
            self.trace.append(f"send {number} {len(data)} {zlib.crc32(data):08x}")

    def close(self, effect: Close) -> None:
        number, reason = effect.connection, effect.reason
        self.trace.append(f"close {number} {reason}")
        client = self.clients.pop(number)
        client.closed = reason
        self.perform(self.broker.disconnected(number))

    def resume(self, effect: Resume) -> None:
        """Clients feed what they have at once, so nothing was left unread."""
        self.trace.append(f"resume {effect.connection}")

    def dial(self, effect: Dial) -> None:
        self.trace.append(f"dial {effect.node} {effect.host}:{effect.port}")
        if (effect.host, effect.port) not in self.listening:
            self.report(effect, DialFailed(f"{effect.host}:{effect.port} does not listen"))
            return
        line = DialledLine(self, self._take_number(), effect)
        self.dialled[line.number] = line
        self.report(effect, Dialled(line.number))

    def hang_up(self, effect: Hangup) -> None:
        self.trace.append(f"hang up {effect.connection}")
        self.dialled.pop(effect.connection).is_open = False

    def persist(self, effect: Persist, synced: Synced) -> None:
        """At once, unless a test wants to hold it back; then `flush` or `sync` performs it."""
        if isinstance(effect, Flush):
            self.trace.append(f"flush {effect.topic_partition} {effect.plan.up_to}")
            is_held = self.held_flushes is not None
            if self.held_flushes is not None:
                self.held_flushes.append(effect)
        elif isinstance(effect, SyncSwap):
            is_held = self.held_syncs is not None
            if self.held_syncs is not None:
                self.held_syncs.append(effect)
        else:
            self.trace.append(f"sync {type(effect).__name__}")
            is_held = False
        if is_held:
            self._synced[id(effect)] = synced
        else:
            synced(self._sync(effect))

    def _sync(self, effect: Persist) -> Done | Failed:
        try:
            sync_all(self.fs, effect.syncs)
        except OSError as error:
            return Failed(error)
        return Done()

    def flush(self, effect: Persist) -> None:
        """Performs what was held back."""
        self._synced.pop(id(effect))(self._sync(effect))

    sync = flush

    def write_snapshot(self, effect: WriteSnapshot) -> None:
        self.trace.append(f"write snapshot {effect.work.plan.snapshot_id}")
        try:
            write_snapshot(self.fs, effect.work)
        except OSError as error:
            self.report(effect, Failed(error))
        else:
            self.report(effect, Done())

    def halt(self, effect: Halt) -> None:
        self.halted.append(effect.reason)

    def unlink(self, effect: Unlink) -> None:
        self.trace.append(f"unlink {len(effect.plan.files)}")
        if self.held_unlinks is None:
            self.finish_unlink(effect)
        else:
            self.held_unlinks.append(effect)

    def finish_unlink(self, effect: Unlink) -> None:
        self.report(effect, unlink_all(self.fs, effect.plan))

    def clean(self, effect: Clean) -> None:
        self.trace.append(f"clean {effect.plan.topic_partition}")
        if self.held_passes is None:
            self.finish_pass(effect)
        else:
            self.held_passes.append(effect)

    def finish_pass(self, effect: Clean) -> None:
        """The whole pass at once, as a worker does it."""
        outcome = clean(
            self.fs,
            effect.plan,
            dice=self.dice,
            on_group=lambda group: self.report(effect, GroupCleaned(group)),
            should_abort=lambda: self.called_off.get(effect.number, False),
        )
        self.report(effect, PassFailed(outcome) if isinstance(outcome, str) else outcome)

    def proceed(self, effect: Proceed) -> None:
        self.called_off[effect.number] = not effect.go_on

    def give_up(self, effect: GiveUp) -> None:
        self.trace.append(f"give up {effect.number}")
        self.given_up.append(effect)

    def scan(self, effect: StartScan) -> None:
        if self.held_scans is None:
            self.finish_scan(effect)
        else:
            self.held_scans.append(effect)

    def finish_scan(self, effect: StartScan, result: ScanResult | None = None) -> None:
        """The whole search or scan at once, as a worker does it; or with a given end."""
        self.scans_done.append(effect)
        if result is None:
            try:
                message = report_message(scan(self.fs, effect.plan))
            except Exception as error:  # noqa: BLE001 - as a worker says it
                result = ScanFailed(f"{type(error).__name__}: {error}")
            else:
                # As it comes out of a pipe.
                result = report_of(json.loads(json.dumps(message)))
        self.report(effect, result)

    def ask_verifier(self, effect: AskVerifier) -> None:
        said = self.verifiers.get(effect.name, f"no verifier {effect.name} is installed here")
        if isinstance(said, str):
            self.report(effect, VerifierFailed(said))
        else:
            self.report(effect, VerifierSaid(tuple(said)))

    def analyse(self, effect: Analyse) -> None:
        """The whole analysis at once, as a worker does it."""
        from ledgerstone.server.anatomy.worker import Memory

        if self._analyses is None:
            self._analyses = Memory(self.fs, seed=self.dice.random_bytes(16))
        found = self._analyses.analyse(effect.plan)
        self.report(effect, AnalysisFailed(found) if isinstance(found, str) else found)

    def serve_backlog(self) -> None:
        """Sockets take everything at once, so what came ahead is served on, each in its turn."""
        while waiting := [each for each in self.clients if self.broker.has_backlog(each)]:
            for number in waiting:
                self.perform(self.broker.sent(number))

    # -- time ---------------------------------------------------------------------------------

    def advance(self, ms: int) -> None:
        """Lets time pass, ticking whenever the broker asked to be. Of hours, some ticks come late,
        as on a busy machine: there are too many of them, since something is due every second."""
        until_ms = self.clock.monotonic_ms() + ms
        stride_ms = ms // MOST_TICKS if ms > EACH_TICK_UP_TO_MS else 0
        while (due_ms := self.broker.next_deadline_ms) <= until_ms:
            now_ms = self.clock.monotonic_ms()
            self.clock.advance(ms=max(0, due_ms - now_ms, min(stride_ms, until_ms - now_ms)))
            self.tick()
        self.clock.advance(ms=until_ms - self.clock.monotonic_ms())

    def jump(self, *, hours: int = 0, days: int = 0) -> None:
        """A long time at once, as when a machine was asleep."""
        self.clock.advance(hours=hours, days=days)
        self.tick()

    def tick(self) -> None:
        self.perform(self.broker.tick())
        self.serve_backlog()

    # -- what must always hold ----------------------------------------------------------------

    def check_invariants(self) -> None:
        for partition in self.broker.partitions:
            partition.log.check_invariants()
        self.broker.check_invariants()
