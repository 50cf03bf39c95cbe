"""A client's connection: dials when it is needed, matches answers, gives up when none comes."""

from collections import deque
from collections.abc import Callable

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.codec import decode_response, encode_request
from ledgerstone.protocol.framing import FrameReader, frame_prefix
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    peek_correlation_id,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.sim.clients.gate import ClientProcess
from ledgerstone.sim.network import Link, Network
from ledgerstone.sim.node import Node
from ledgerstone.sim.world import Event, Violation, World
from ledgerstone.types import INT32_MAX

# None: the connection ended, or nothing was said in time.
Then = Callable[[ApiMessage | None], None]


@dataclass(slots=True, eq=False)
class _Asked:
    correlation_id: int
    api_key: int
    version: int
    then: Then
    timeout: Event


class Wire:
    """One link at a time. Every request is answered once, with a message or with None."""

    def __init__(
        self,
        world: World,
        network: Network,
        name: str,
        node: Node,
        gate: ClientProcess | None = None,
    ) -> None:
        self.world = world
        self.gate = gate or ClientProcess(world, name)
        self.network = network
        self.name = name
        self.node = node
        self._link: Link | None = None
        # Given up, and perhaps still on their way to the node.
        self._former: list[Link] = []
        self._reader = FrameReader(INT32_MAX)
        self._asked: deque[_Asked] = deque()
        self._next_id = 0

    def ask(self, message: ApiMessage, version: int, then: Then, timeout_ms: int) -> None:
        self.world.requests += 1
        if self._link is None:
            self._reader = FrameReader(INT32_MAX)
            self._link = self.network.dial(self, self.node)
        self._next_id += 1
        timeout = self.gate.after(timeout_ms, f"{self.name} gives up", self.hang_up)
        self._asked.append(_Asked(self._next_id, message.api_key, version, then, timeout))
        header = RequestHeader(message.api_key, version, self._next_id, self.name)
        content = encode_request_header(header) + b"".join(
            bytes(piece)  # type: ignore[arg-type]
            for piece in encode_request(message, version)
        )
        self.network.send(self._link, self, frame_prefix(len(content)) + content)

    @property
    def waiting(self) -> int:
        return len(self._asked)

    def hang_up(self) -> None:
        """Ends the link, if there is one; whatever was asked has no answer."""
        link, self._link = self._link, None
        if link is not None:
            self._former.append(link)
            if link.is_open_for(self):
                self.network.close(link, self)
        self._give_up()

    @property
    def has_former_links(self) -> bool:
        """Whether a request that was given up may still reach the node."""
        self._former = [link for link in self._former if self.node.may_hear(link)]
        return bool(self._former)

    def _give_up(self) -> None:
        asked, self._asked = self._asked, deque()
        for each in asked:
            each.timeout.cancel()
        for each in asked:
            each.then(None)

    # -- network ------------------------------------------------------------------------------

    def accepts(self, port: int) -> bool:
        return False

    def link_opened(self, link: Link) -> None:
        raise AssertionError("nobody dials a client")

    def link_received(self, link: Link, data: bytes) -> None:
        self.gate.run(lambda: self._received(link, data))

    def link_closed(self, link: Link) -> None:
        self.gate.run(lambda: self._closed(link))

    def _received(self, link: Link, data: bytes) -> None:
        if link is not self._link:
            return
        for frame in self._reader.feed(data):
            if not self._asked:
                raise Violation("AnsweredOnce", f"{self.name} was answered and had not asked")
            asked = self._asked.popleft()
            asked.timeout.cancel()
            if peek_correlation_id(frame) != asked.correlation_id:
                raise Violation("AnsweredInOrder", f"{self.name} {asked.correlation_id}")
            position = response_body_position(asked.api_key, asked.version, frame)
            message = decode_response(asked.api_key, asked.version, frame, position)
            asked.then(message)
            if link is not self._link:
                return

    def _closed(self, link: Link) -> None:
        if link is self._link:
            self._former.append(link)
            self._link = None
            self._give_up()
