"""Our replica of the quorum on a disk and on connections, and nothing else: no broker, no records.

    PYTHONPATH=src:. python -m tests.kit.bare_voter server.properties

It votes, follows, leads without writing anything, and answers the requests of the quorum. SIGUSR1
makes it resign. Calls block on threads of their own; the quorum lives on the main thread.
"""

import queue
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ledgerstone.config.broker import load_broker_config
from ledgerstone.protocol.codec import decode_request, encode_response
from ledgerstone.protocol.headers import decode_request_header, encode_response_header
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages import APIS, ApiKey
from ledgerstone.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeature,
)
from ledgerstone.raft.events import Leadership
from ledgerstone.raft.replica import OffsetAndEpoch, Peer
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.effects import Effect, FreezeSnapshot, SyncMetadata
from ledgerstone.server.quorum import opening
from ledgerstone.server.quorum.agent import QuorumAgent
from ledgerstone.server.quorum.door import CommittedBatch
from ledgerstone.server.results import Done
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.storage.sync_plan import sync_all
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from tests.compat.wire import ask

SERVED: Final = (
    *(ApiKey.FETCH, ApiKey.API_VERSIONS, ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH),
    *(ApiKey.END_QUORUM_EPOCH, ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH_SNAPSHOT),
    *(ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_RAFT_VOTER),
)
LONGEST_WAIT_S: Final = 0.2

Move = Callable[[], None]


class Silent:
    """A state machine that only says who leads."""

    def load(self, snapshot_id: OffsetAndEpoch, records: Iterator[MetadataRecord]) -> None:
        count = sum(1 for _ in records)
        _say(f"loaded {snapshot_id} with {count} records")

    def committed(self, batch: CommittedBatch) -> None:
        batch.records()

    def leadership(self, leadership: Leadership) -> None:
        _say(f"epoch {leadership.epoch} leader {leadership.leader_id} me {leadership.is_me}")

    def snapshot(self) -> Iterable[MetadataRecord] | None:
        return None


class Threads:
    """`Calls`, one thread for each call."""

    def __init__(self, moves: "queue.Queue[Move]") -> None:
        self._moves = moves

    def ask(
        self,
        peer: Peer,
        request: ApiMessage,
        on_answer: Callable[[ApiMessage | CallFailed], None],
        *,
        timeout_ms: int,
        least_version: int = 0,
    ) -> None:
        def call() -> None:
            answer: ApiMessage | CallFailed
            version = APIS[request.api_key].last_version
            try:
                address = f"{peer.host}:{peer.port}"
                answer = ask(address, request, version, timeout_s=timeout_ms / 1000)
            except (OSError, struct.error) as error:
                answer = CallFailed(str(error), False)
            self._moves.put(lambda: on_answer(answer))

        threading.Thread(target=call, daemon=True).start()


class BareVoter:
    def __init__(self, properties: Path) -> None:
        config = load_broker_config(properties=properties.read_bytes()).config
        self._fs = OsFilesystem()
        self._clock = SystemClock()
        dice = SystemDice()
        log_dir = open_log_dir(
            self._fs, self._clock, dice, config.log_dirs[0], node_id=config.node_id
        )
        advertised = config.cluster.advertised_controller_listeners
        self.moves: queue.Queue[Move] = queue.Queue()
        threads: Any = Threads(self.moves)
        # The agent keeps the calls it is made with.
        opening.Calls = lambda *_, **__: threads  # type: ignore[attr-defined,assignment]
        self.agent: QuorumAgent = opening.open_quorum(
            config, self._clock, dice, log_dir, advertised
        )
        names = config.cluster.controller_listener_names
        bound = next(each for each in config.listeners if each.name in names)
        self._listener = socket.create_server((bound.host, bound.port), backlog=64)

    def run(self) -> None:
        threading.Thread(target=self._accept, daemon=True).start()
        self.agent.start(Silent())
        _say("started")
        while self.agent.halted is None:
            self._perform(self.agent.tick())
            with suppress(queue.Empty):
                self.moves.get(timeout=self._pause_s())()
        _say(f"halted: {self.agent.halted}")

    def resign(self) -> None:
        self.moves.put(lambda: self.agent.resign(self.agent.epoch))

    def _pause_s(self) -> float:
        deadline_ms = self.agent.next_deadline_ms
        if deadline_ms is None:
            return LONGEST_WAIT_S
        left_ms = deadline_ms - self._clock.monotonic_ms()
        return min(LONGEST_WAIT_S, max(0.001, left_ms / 1000))

    def _perform(self, effects: Iterable[Effect]) -> None:
        waiting = list(effects)
        while waiting:
            effect = waiting.pop(0)
            if isinstance(effect, SyncMetadata | FreezeSnapshot):
                sync_all(self._fs, effect.syncs)
                waiting += self.agent.completed(effect, Done())
            else:
                _say(f"asked for {effect}")

    # -- requests -----------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(struct.unpack(">i", size)[0])
                header, position = decode_request_header(frame)
                request = decode_request(header.api_key, header.api_version, frame, position)
                answer = self._answer(request)
                start = encode_response_header(
                    header.api_key, header.api_version, header.correlation_id
                )
                pieces: list[Any] = list(encode_response(answer, header.api_version))
                body = start + b"".join(pieces)
                connection.sendall(struct.pack(">i", len(body)) + body)

    def _answer(self, request: ApiMessage) -> ApiMessage:
        if request.api_key == ApiKey.API_VERSIONS:
            return _versions()
        answers: queue.Queue[ApiMessage] = queue.Queue()
        self.moves.put(lambda: self.agent.ask(request, answers.put))
        return answers.get()


def _versions() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(
                api_key=key,
                min_version=APIS[key].first_version,
                max_version=APIS[key].last_version,
            )
            for key in SERVED
        ],
        supported_features=[SupportedFeature(name="kraft.version", min_version=0, max_version=1)],
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> None:
    voter = BareVoter(Path(sys.argv[1]))
    signal.signal(signal.SIGUSR1, lambda *_: voter.resign())
    voter.run()


if __name__ == "__main__":
    main()
