"""The contract of effects: no kind is dropped, order, persist before send. For every performer."""

import asyncio
import errno
import select
import socket
import threading
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest

from ledgerstone.erasure.verifiers import VerifierQuestion
from ledgerstone.fs import Filesystem
from ledgerstone.protocol.messages.api_versions import ApiVersionsRequest
from ledgerstone.raft.events import LogSync, SnapshotPlan
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.server.accepting import Listening
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Close,
    Dial,
    Effect,
    Flush,
    FollowUp,
    FreezeSnapshot,
    GiveUp,
    Halt,
    Hangup,
    PersistThen,
    Proceed,
    Resume,
    Send,
    SyncCopy,
    SyncMetadata,
    SyncSwap,
    Unlink,
    WriteSnapshot,
)
from ledgerstone.server.performer import Completed, Hands, Performer
from ledgerstone.server.quorum.snapshot_writing import SnapshotWork
from ledgerstone.server.results import Done, Failed, Result, is_last
from ledgerstone.server.runtime import Runtime
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.log import FlushPlan
from ledgerstone.storage.sync_plan import DirectoryAt, NewFile
from ledgerstone.testing.worker_threads import ThreadedRuntime
from ledgerstone.types import TopicPartition
from tests.kit.in_process import DATA, InProcess, frame_of, newest_version
from tests.unit.server.asks import TOPIC, create_topic
from tests.unit.server.erasing_kit import ErasingMachine
from tests.unit.server.test_anatomy import look
from tests.unit.server.test_cleaning import put, roll

TIMEOUT_S = 20
HELLO = ApiVersionsRequest(client_software_name="test", client_software_version="1")
GONE = TopicPartition("gone", 0)
SNAPSHOT = OffsetAndEpoch(5, 1)
KINDS: tuple[type[Effect], ...] = get_args(Effect)
# Kinds that say nothing back.
SILENT = (Send, Close, Resume, Proceed, GiveUp, Hangup, Halt)


def flush() -> Flush:
    """Of a partition that is not here, so that nothing else comes of it."""
    syncs = (DirectoryAt(DATA),)
    return Flush(
        GONE, bytes(16), FlushPlan(up_to=1, syncs=syncs, names_made=0, truncations=0, active_base=0)
    )


def planned() -> Iterator[Effect]:
    """Work for each worker, as a broker asks for it."""
    machine = ErasingMachine()
    client = machine.connect()
    create_topic(client, TOPIC, 1, cleanup_policy="compact")
    machine.held_passes, machine.held_scans = [], []
    put(machine, client, ("a", "1"), ("a", "2"))
    roll(machine)
    machine.broker.cleaning.look_now()
    machine.erase(b"a", TOPIC)
    machine.tick()
    yield machine.held_passes[0]
    yield machine.held_scans[0]
    look(machine)
    yield from (each for each in machine.broker.tick() if isinstance(each, Analyse))


@pytest.fixture(scope="module")
def samples() -> dict[type[Effect], Effect]:
    persist = flush()
    question = VerifierQuestion(erasure_id="id", topic="t", key_hmac=b"", key=None, tombstones=())
    made: list[Effect] = [
        Send(1, [b"data"]),
        Close(1, "why"),
        Resume(1),
        FollowUp(),
        Dial(2, "127.0.0.1", 1, purpose="test"),
        Hangup(1),
        persist,
        SyncSwap(1, GONE, bytes(16), DATA, ()),
        SyncMetadata(LogSync(1, 0), persist.plan),
        SyncCopy(GONE, bytes(16), (DirectoryAt(DATA),)),
        FreezeSnapshot(SNAPSHOT, NewFile(f"{DATA}/fetched.part", f"{DATA}/fetched")),
        WriteSnapshot(
            SnapshotWork(
                plan=SnapshotPlan(SNAPSHOT, b"", 1),
                file=NewFile(f"{DATA}/own.part", f"{DATA}/own"),
                records=[],
                wall_ms=0,
            )
        ),
        Halt("why"),
        PersistThen(persist, (Send(1, [b"data"]),)),
        Unlink(UnlinkPlan(files=(f"{DATA}/none.deleted",))),
        Proceed(1, go_on=True),
        GiveUp(1, "why"),
        AskVerifier("lake", question),
        *planned(),
    ]
    return {type(each): each for each in made}


def test_there_is_a_sample_of_every_kind(samples: dict[type[Effect], Effect]) -> None:
    assert set(samples) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_effects_are_data(kind: type[Effect], samples: dict[type[Effect], Effect]) -> None:
    sample: Any = samples[kind]
    assert not hasattr(sample, "perform")
    names = [each.name for each in fields(sample)] if is_dataclass(sample) else sample._fields
    assert [name for name in names if callable(getattr(sample, name))] == []


class Noting:
    """Hands that note what they were handed."""

    def __init__(self) -> None:
        self.handed: list[tuple[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda effect, *_: self.handed.append((name, effect))


@pytest.mark.parametrize(
    "kind", [each for each in KINDS if each is not FollowUp], ids=lambda kind: kind.__name__
)
def test_every_kind_reaches_the_hands(
    kind: type[Effect], samples: dict[type[Effect], Effect]
) -> None:
    hands: Any = Noting()
    Performer(hands, lambda effect, result: []).perform([samples[kind]])

    ((name, _),) = hands.handed
    assert name in vars(Hands)


def noting(ended: list[tuple[Effect, Result]]) -> Completed:
    """Notes what came of effects, and wants nothing done next."""

    def completed(effect: Effect, result: Result) -> list[Effect]:
        ended.append((effect, result))
        return []

    return completed


def ends_in_process(effects: Iterable[Effect]) -> list[tuple[Effect, Result]]:
    machine = InProcess()
    ended: list[tuple[Effect, Result]] = []
    machine._performer = Performer(machine, noting(ended))
    machine.perform(effects)
    return ended


def ends_in_runtime(effects: Iterable[Effect]) -> list[tuple[Effect, Result]]:
    broker = InProcess().broker
    expected = list(effects)
    ended: list[tuple[Effect, Result]] = []

    async def main() -> None:
        runtime = ThreadedRuntime(broker, asyncio.get_running_loop())
        runtime._performer = Performer(runtime, noting(ended))
        noting_broker: Any = Answering(broker, ended)
        runtime._broker = noting_broker
        async with asyncio.timeout(TIMEOUT_S):
            runtime._perform(expected)
            while len(ended) < len(expected):
                await asyncio.sleep(0.001)
        await runtime.stop()

    asyncio.run(main())
    return ended


class Answering:
    """A broker that only notes what came of effects."""

    def __init__(self, broker: Broker, ended: list[tuple[Effect, Result]]) -> None:
        self._broker = broker
        self.completed = noting(ended)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)


@pytest.mark.parametrize("perform", [ends_in_process, ends_in_runtime])
def test_every_kind_with_a_result_gets_its_last_one_once(
    perform: Any, samples: dict[type[Effect], Effect]
) -> None:
    wanted = [each for kind, each in samples.items() if kind not in (*SILENT, PersistThen)]

    ended = [effect for effect, result in perform(wanted) if is_last(result)]

    assert sorted(map(id, ended)) == sorted(map(id, wanted))


@pytest.mark.parametrize("hands", [Runtime, InProcess])
def test_hands_have_a_method_for_every_kind(hands: type) -> None:
    wanted = [name for name in vars(Hands) if not name.startswith("_")]
    # Flush, SyncSwap, SyncCopy, SyncMetadata, FreezeSnapshot and PersistThen share `persist`;
    # FollowUp is the performer's own.
    assert len(wanted) == len(KINDS) - 6
    assert [name for name in wanted if name not in vars(hands)] == []


# -- order ----------------------------------------------------------------------------------------


def test_sends_side_by_side_are_one_and_others_keep_their_place() -> None:
    hands: Any = Noting()
    first, second, third = Send(1, [b"a"]), Send(2, [b"b"]), Send(1, [b"c"])
    closing, resuming = Close(1, "why"), Resume(2)

    Performer(hands, lambda *_: []).perform([first, second, closing, third, resuming])

    assert hands.handed == [
        ("send", [first, second]),
        ("close", closing),
        ("send", [third]),
        ("resume", resuming),
    ]


def test_a_follow_up_comes_back_behind_the_sends_before_it_and_before_those_after_it() -> None:
    hands: Any = Noting()
    first, caused, last = Send(1, [b"a"]), Send(2, [b"b"]), Send(1, [b"c"])

    Performer(hands, lambda *_: [caused]).perform([first, FollowUp(), last])

    assert hands.handed == [("send", [first]), ("send", [caused]), ("send", [last])]


# -- persist, then send ---------------------------------------------------------------------------

VOTE = b"\x00\x00\x00\x04\x00\x00\x00\x07"


def test_in_process_vote_leaves_after_its_sync_and_before_what_that_caused() -> None:
    machine = InProcess()
    voter = machine.connect_raw()
    machine.held_flushes = []
    told: list[Result] = []

    def completed(effect: Effect, result: Result) -> list[Effect]:
        told.append(result)
        return [Send(voter.number, [VOTE[:6]]), Send(voter.number, [VOTE[6:]])]

    machine._performer = Performer(machine, completed)
    machine.perform([PersistThen(flush(), (Send(voter.number, [VOTE, VOTE]),))])
    before = (voter.received_bytes, list(told))
    machine.flush(machine.held_flushes[0])

    assert before == (0, [])
    assert told == [Done()]
    assert machine.trace[1:] == [
        f"send {voter.number} 16 " + machine.trace[1].split()[-1],
        f"send {voter.number} 6 " + machine.trace[2].split()[-1],
        f"send {voter.number} 2 " + machine.trace[3].split()[-1],
    ]


def test_in_process_vote_that_could_not_be_synced_never_leaves() -> None:
    machine = InProcess()
    voter = machine.connect_raw()
    ended: list[tuple[Effect, Result]] = []
    machine._performer = Performer(machine, noting(ended))
    machine.fs.fail_matching("fsync_dir", DATA, errno.EIO)

    machine.perform([PersistThen(flush(), (Send(voter.number, [VOTE]),))])

    assert voter.received_bytes == 0
    assert [type(result) for _, result in ended] == [Failed]


class SlowDisk:
    """Syncs nothing before it is told to, and then perhaps not."""

    def __init__(self, refusal: OSError | None = None) -> None:
        self.refusal = refusal
        self.began, self.may_go_on = threading.Event(), threading.Event()

    def fsync_dir(self, path: str) -> None:
        self.began.set()
        assert self.may_go_on.wait(TIMEOUT_S)
        if self.refusal is not None:
            raise self.refusal


async def round_trip(address: Any) -> None:
    """A whole turn of the loop that serves others: whatever could leave has left."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(frame_of(HELLO, newest_version(HELLO)))
    await reader.readexactly(4)
    writer.close()


def is_silent(sock: socket.socket) -> bool:
    return select.select([sock], [], [], 0)[0] == []


@pytest.mark.parametrize("make", [Runtime, ThreadedRuntime])
@pytest.mark.parametrize("fails", [False, True])
def test_on_sockets_vote_leaves_after_its_sync_or_never(
    make: type[Runtime], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = InProcess().broker
    disk = SlowDisk(OSError(errno.EIO, "no") if fails else None)
    slow: Filesystem = disk  # type: ignore[assignment]
    told: list[Result] = []
    honest = Broker.completed

    def completed(self: Broker, effect: Effect, result: Result) -> list[Effect]:
        told.append(result)
        return honest(self, effect, result)

    monkeypatch.setattr(Broker, "completed", completed)

    async def main() -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        runtime = make(broker, asyncio.get_running_loop())
        runtime.start([Listening(listener)])
        runtime.fs = slow
        voter = socket.create_connection(listener.getsockname())
        while not runtime.connection_count:
            await asyncio.sleep(0)
        (number,) = runtime._connections._all
        runtime._perform([PersistThen(flush(), (Send(number, [VOTE]),))])
        assert await asyncio.to_thread(disk.began.wait, TIMEOUT_S)
        await round_trip(listener.getsockname())
        assert is_silent(voter)
        assert told == []
        disk.may_go_on.set()
        while not told:
            await asyncio.sleep(0)
        await round_trip(listener.getsockname())
        assert is_silent(voter) == fails
        assert fails or voter.recv(100) == VOTE
        voter.close()
        await runtime.stop()

    asyncio.run(asyncio.wait_for(main(), TIMEOUT_S))
    assert [type(each) for each in told] == [Failed if fails else Done]
