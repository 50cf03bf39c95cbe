"""The session over plain blocking sockets. Shell: performs steps, decides nothing.

One thread at a time may use a `Client`. Connections are made on first use and kept; a failed one is
dropped, and the session says where to go instead.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar, assert_never

from ledgerstone import __version__
from ledgerstone.client.call import Answered, Call, Pause, SendRequest
from ledgerstone.client.cluster import Endpoint, TopicInfo, ask_about
from ledgerstone.client.errors import check, error_of
from ledgerstone.client.rounds import PartitionAnswer, PartitionAnswers, Rounds
from ledgerstone.client.routing import Target, ToBroker, target_of
from ledgerstone.client.security import ClientSecurity
from ledgerstone.client.session import ClientSession, LinkId, SessionConfig
from ledgerstone.clock import Clock, Dice
from ledgerstone.errors import InvariantViolation, KafkaError
from ledgerstone.protocol.client_connection import ClientConnection, Response
from ledgerstone.protocol.client_login import LoginFailed, renewal_ms
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ledgerstone.protocol.wire import ProtocolViolation
from ledgerstone.security.accounts import MakeLogin, login_maker
from ledgerstone.system import SystemClock, SystemDice
from ledgerstone.tls.failures import explained
from ledgerstone.types import Buffer, TopicPartition

R = TypeVar("R", bound=ApiMessage)
A = TypeVar("A")
W = TypeVar("W")

CONNECT_TIMEOUT_MS: Final = 10_000
# A parked fetch may stay silent for its own max wait, plus this.
GRACE_MS: Final = 5_000
# Most responses are smaller; the rest of a larger one is received in place.
RECEIVE_BYTES: Final = 1 << 16
MAX_RESPONSE_BYTES: Final = 256 << 20


class SocketLike(Protocol):
    """The part of a socket that is used."""

    def sendall(self, data: Buffer, /) -> None: ...
    def recv(self, size: int, /) -> bytes: ...
    def recv_into(self, buffer: memoryview, /) -> int: ...
    def settimeout(self, timeout_s: float, /) -> None: ...
    def close(self) -> None: ...


Dial = Callable[[Endpoint, float], SocketLike]
Sleep = Callable[[float], None]


def dial_tcp(endpoint: Endpoint, timeout_s: float) -> socket.socket:
    sock = socket.create_connection(endpoint, timeout=timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def dial_for(security: ClientSecurity) -> Dial:
    if security.tls is None:
        return dial_tcp
    # Takes cryptography with it, which a plain client does without.
    from ledgerstone.client.tls_dial import tls_dial

    return tls_dial(security.tls, dial_tcp)


class BlockingConnection:
    """One socket and its protocol state. Unusable after any exception but UnsupportedVersion."""

    def __init__(
        self, sock: SocketLike, client_id: str, make_login: MakeLogin | None = None
    ) -> None:
        self._sock = sock
        self._protocol = ClientConnection(
            client_id, __version__, max_bytes=MAX_RESPONSE_BYTES, make_login=make_login
        )
        self._log_in_again_ms: int | None = None

    def exchange(self, step: SendRequest, clock: Clock) -> ApiMessage | None:
        """Returns the response, or None if none is expected."""
        deadline_ms = clock.monotonic_ms() + step.timeout_ms
        if self._log_in_again_ms is not None and clock.monotonic_ms() >= self._log_in_again_ms:
            self._log_in_again_ms = None
            self._protocol.log_in_again()
        self._get_ready(deadline_ms, clock)
        self._protocol.send(
            step.request,
            at_most=step.at_most_version,
            expects_response=step.expects_response,
        )
        self._flush()
        if not step.expects_response:
            return None
        responses: list[Response] = []
        while not responses:
            responses = self._receive(deadline_ms, clock)
        return responses[0].message

    def _get_ready(self, deadline_ms: int, clock: Clock) -> None:
        """Versions first, then the login, if there is one."""
        while not self._protocol.is_ready:
            self._flush()
            self._receive(deadline_ms, clock)
        lifetime_ms = self._protocol.lifetime_ms
        if lifetime_ms is not None and self._log_in_again_ms is None:
            self._log_in_again_ms = clock.monotonic_ms() + renewal_ms(lifetime_ms)

    def _flush(self) -> None:
        for piece in self._protocol.data_to_send():
            if not isinstance(piece, Buffer):
                raise InvariantViolation(f"a request holds {type(piece).__name__}, not bytes")
            self._sock.sendall(piece)

    def _receive(self, deadline_ms: int, clock: Clock) -> list[Response]:
        remaining_ms = deadline_ms - clock.monotonic_ms()
        if remaining_ms <= 0:
            raise TimeoutError("no answer in time")
        self._sock.settimeout(remaining_ms / 1000)
        room = self._protocol.room()
        if room is not None:
            with room:
                count = self._sock.recv_into(room)
            if count:
                return self._protocol.received(count)
        # A fresh object each time: decoded messages may hold views of it.
        elif data := self._sock.recv(RECEIVE_BYTES):
            return self._protocol.receive_data(data)
        raise ConnectionError("closed by the broker")

    def close(self) -> None:
        self._sock.close()


def reason_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        # In TLS 1.3 a broker looks at our certificate after our handshake is over.
        return explained(error)
    return str(error) or type(error).__name__


class Client:
    """A client of one cluster. Closes its connections when it leaves a `with` block."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        config: SessionConfig | None = None,
        *,
        clock: Clock | None = None,
        dice: Dice | None = None,
        dial: Dial | None = None,
        sleep: Sleep = time.sleep,
    ) -> None:
        self.clock: Clock = clock or SystemClock()
        self.dice: Dice = dice or SystemDice()
        self.session = ClientSession(bootstrap, self.dice, config)
        self._dial = dial or dial_for(self.session.config.security)
        self._sleep = sleep
        account = self.session.config.security.account
        self._make_login = None if account is None else login_maker(account, self.dice)
        self._connections: dict[LinkId, BlockingConnection] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        for link in list(self._connections):
            self._drop(link)

    # -- one request ---------------------------------------------------------------------------

    def call(
        self,
        request: ApiMessage,
        response_class: type[R],
        *,
        to: Target | None = None,
        timeout_ms: int | None = None,
        one_try: bool = False,
        at_most: int | None = None,
    ) -> R:
        """Returns the response, whatever error codes it has; raises if there is none."""
        call = Call(
            self.session,
            request,
            target_of(request) if to is None else to,
            now_ms=self.clock.monotonic_ms(),
            timeout_ms=timeout_ms,
            one_try=one_try,
            at_most=at_most,
        )
        while True:
            step = call.next_step(self.clock.monotonic_ms())
            match step:
                case Answered(response=response):
                    assert isinstance(response, response_class), f"{call}: {type(response)}"
                    return response
                case Pause(duration_ms=duration_ms):
                    self._sleep(duration_ms / 1000)
                case SendRequest():
                    self._perform(call, step)
                case _:
                    assert_never(step)

    def _perform(self, call: Call, step: SendRequest) -> None:
        try:
            response = self._connection(step).exchange(step, self.clock)
        except LoginFailed as error:
            self._drop(step.link)
            endpoint = step.link.endpoint
            raise error_of(error.code, f"{endpoint.host}:{endpoint.port}", str(error)) from None
        except (OSError, ProtocolViolation) as error:
            self._drop(step.link)
            reason = reason_of(error)
            call.failed(reason, self.clock.monotonic_ms())
            return
        except KafkaError:
            raise  # the broker lacks a version we need; the connection is still good
        except BaseException:
            # Interrupted between request and response: the stream is unusable.
            self._drop(step.link)
            raise
        if response is None:
            call.sent_without_response()
        else:
            call.answered(response, self.clock.monotonic_ms())

    def _connection(self, step: SendRequest) -> BlockingConnection:
        known = self._connections.get(step.link)
        if known is not None:
            return known
        timeout_ms = min(step.timeout_ms, CONNECT_TIMEOUT_MS)
        sock = self._dial(step.link.endpoint, timeout_ms / 1000)
        made = BlockingConnection(sock, self.session.config.client_id, self._make_login)
        self._connections[step.link] = made
        return made

    def _drop(self, link: LinkId) -> None:
        connection = self._connections.pop(link, None)
        if connection is not None:
            connection.close()

    # -- topics and leaders --------------------------------------------------------------------

    def all_topics(self) -> list[TopicInfo]:
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        response = self.call(request, MetadataResponse)
        names = sorted(topic.name for topic in response.topics if topic.name is not None)
        return [self.session.cluster.topics[n] for n in names if n in self.session.cluster.topics]

    def topic(self, name: str) -> TopicInfo:
        """Asks the cluster; raises UnknownTopicOrPartition at once if there is no such topic."""
        self.call(ask_about([name]), MetadataResponse)
        cluster = self.session.cluster
        if name not in cluster.topics:
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            check(cluster.topic_errors.get(name, unknown), f"topic {name}")
        return cluster.topics[name]

    def ask_leaders(
        self,
        api_name: str,
        wanted: Mapping[TopicPartition, W],
        build: Callable[[Mapping[TopicPartition, W]], ApiMessage],
        read: Callable[[R], Iterable[PartitionAnswer[A]]],
        response_class: type[R],
        *,
        timeout_ms: int | None = None,
        at_most: int | None = None,
    ) -> PartitionAnswers[A]:
        """Asks the leader of each partition; `build` gets one leader's partitions at a time."""
        rounds: Rounds[W, A] = Rounds(
            self.session,
            api_name,
            wanted,
            now_ms=self.clock.monotonic_ms(),
            timeout_ms=timeout_ms,
        )
        while rounds.pending:
            question = rounds.metadata_to_ask(self.clock.monotonic_ms())
            if question is not None:
                self.call(question, MetadataResponse)
            for node_id, group in rounds.by_leader(self.clock.monotonic_ms()).items():
                answer = self._ask_leader(rounds, node_id, build(group), response_class, at_most)
                if isinstance(answer, KafkaError):
                    rounds.leader_lost(group, answer, self.clock.monotonic_ms())
                else:
                    rounds.take(group, read(answer), self.clock.monotonic_ms())
            if rounds.pending:
                self._sleep(rounds.pause_ms(self.clock.monotonic_ms()) / 1000)
        return rounds.answers

    def _ask_leader(
        self,
        rounds: Rounds[W, A],
        node_id: int,
        request: ApiMessage,
        response_class: type[R],
        at_most: int | None,
    ) -> R | KafkaError:
        timeout_ms = rounds.remaining_ms(self.clock.monotonic_ms()) + GRACE_MS
        try:
            return self.call(
                request,
                response_class,
                to=ToBroker(node_id),
                timeout_ms=timeout_ms,
                one_try=True,
                at_most=at_most,
            )
        except KafkaError as error:
            return error
