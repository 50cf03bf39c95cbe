"""One replica of ours in a scene of `quorum_questions`: `raft.wire` and a `RaftNode`, in memory."""

from typing import Final

from golden.cluster_plan import CLUSTER_ID
from ledgerstone.errors import InvalidRequest
from ledgerstone.protocol.codec import (
    api_class,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.describe_quorum import DescribeQuorumRequest
from ledgerstone.raft import messages
from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.raft.events import Applied, Asked, Event, Failed, LogSynced, Now, Reply
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.node import RaftNode
from ledgerstone.raft.replica import NO_SNAPSHOT, Listener, ReplicaKey
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.raft.wire import describe, translation
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.quorum.memory_log import MemoryLog
from ledgerstone.sim.quorum.memory_snapshots import MemorySnapshots
from tests.compat.quorum_questions import LISTENER, NODE, Known

LONG_MS: Final = 600_000
WALL_MS: Final = 1_700_000_000_000
PORT: Final = 9_093


class Paper:
    """Time passes only while an answer is waited for."""

    def __init__(self, scene: str) -> None:
        is_dynamic = scene != "static leader"
        voters = (NODE, 2, 3) if scene == "voter" else (NODE,)
        dynamic = VoterSet(_voter(each, Known.directory_of(each)) for each in voters)
        self.log = MemoryLog()
        self.snapshots = MemorySnapshots()
        if is_dynamic:
            first = bootstrap_snapshot(dynamic, wall_ms=WALL_MS)
            self.snapshots.finish(NO_SNAPSHOT, first)
        self._now_ms = 1_000
        self._answers: dict[int, messages.Answer] = {}
        self._token = 0
        self.node = RaftNode(
            identity=Identity(
                key=ReplicaKey(NODE, Known.directory_of(NODE)),
                cluster_id=CLUSTER_ID,
                listeners=(Listener(LISTENER, "127.0.0.1", PORT),),
            ),
            settings=Settings(election_timeout_ms=LONG_MS, fetch_timeout_ms=LONG_MS),
            log=self.log,
            snapshots=self.snapshots,
            hard_state=HardState(),
            static_voters=VoterSet() if is_dynamic else VoterSet(_voter(each) for each in voters),
            bootstrap=(),
            dice=SeededDice("paper"),
            now=self.now,
        )
        self._perform()
        if scene != "voter":
            for _ in range(3):
                self.node.propose(self.now, self.node.epoch, [(WALL_MS, None, b"record", ())])
                self._perform()

    @property
    def now(self) -> Now:
        return Now(self._now_ms, WALL_MS + self._now_ms)

    def ask(self, request: ApiMessage, version: int) -> ApiMessage:
        """Through the codec both ways, so that a version carries what it can and no more."""
        arrived = decode_request(request.api_key, version, _bytes(encode_request(request, version)))
        answer = self._answered(arrived)
        data = _bytes(encode_response(answer, version))
        return decode_response(request.api_key, version, data)

    def _answered(self, request: ApiMessage) -> ApiMessage:
        try:
            asked = translation.request_from_wire(request)
        except InvalidRequest:
            return _refused(request)
        self._token += 1
        self._step(Asked(self._token, asked))
        while self._token not in self._answers:
            self._now_ms = max(self._now_ms + 1, self.node.next_deadline_ms)
            self.node.tick(self.now)
            self._perform()
        return translation.answer_to_wire(request, self._answers.pop(self._token))

    def _step(self, event: Event) -> None:
        self.node.step(self.now, event)
        self._perform()

    def _perform(self) -> None:
        while (ready := self.node.ready()) is not None:
            failed: list[Event] = []
            for message in ready.messages:
                if isinstance(message, Reply):
                    self._answers[message.token] = message.answer
                else:
                    # Nothing else runs.
                    failed.append(Failed(message.peer.id, message.correlation))
            if ready.sync is not None:
                self.log.end_sync(self.log.begin_sync())
                self.node.step(self.now, LogSynced(ready.sync))
            if ready.high_watermark is not None:
                self.node.step(self.now, Applied(ready.high_watermark))
            for each in failed:
                self.node.step(self.now, each)


def _voter(node_id: int, directory_id: bytes | None = None) -> Voter:
    key = ReplicaKey(node_id) if directory_id is None else ReplicaKey(node_id, directory_id)
    return Voter(key=key, listeners=(Listener(LISTENER, "127.0.0.1", PORT + node_id),))


def _bytes(pieces: object) -> bytes:
    return b"".join(pieces)  # type: ignore[arg-type]


def _refused(request: ApiMessage) -> ApiMessage:
    if isinstance(request, DescribeQuorumRequest):
        return describe.refusal(request)
    answer: ApiMessage = api_class(request.api_key, "Response")()
    answer.error_code = ErrorCode.INVALID_REQUEST  # type: ignore[attr-defined]
    return answer
