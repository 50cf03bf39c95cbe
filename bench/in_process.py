"""A broker on the real filesystem without sockets: requests in, answers out, what follows them."""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from ledgerstone.config.broker import BrokerConfig, Listener
from ledgerstone.protocol.codec import encode_request
from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.protocol.headers import RequestHeader, encode_request_header
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.broker import Broker
from ledgerstone.server.effects import Effect, FollowUp, Send
from ledgerstone.server.opening import Surroundings, open_broker
from ledgerstone.server.results import Done
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice

_CONNECTION: Final = 1


class Answered(NamedTuple):
    body: bytes  # with its length and header
    until_answer_us: float
    afterwards_us: float  # what the broker does before it serves anybody else


class InProcessBroker:
    def __init__(self, path: Path, **settings: str) -> None:
        values = {"log.dirs": str(path)} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        world = Surroundings(fs=OsFilesystem(), clock=SystemClock(), dice=SystemDice())
        address = Listener("PLAINTEXT", "127.0.0.1", 9092)
        self._broker: Broker = open_broker(BrokerConfig.from_raw(values), world, [address])
        self._broker.connected(_CONNECTION, "127.0.0.1")

    def close(self) -> None:
        self._broker.log_dir.close()

    def tick(self) -> None:
        self._broker.tick()

    def ask(self, frame: bytes) -> Answered:
        """The request is answered in its own turn."""
        broker, data = self._broker, memoryview(bytearray(frame))
        start = time.perf_counter_ns()
        effects = broker.receive(_CONNECTION, data)
        answered = time.perf_counter_ns()
        body = _sent(effects)
        assert body, "not answered in its turn"
        broker.sent(_CONNECTION)
        start_again = time.perf_counter_ns()
        for each in effects:
            if isinstance(each, FollowUp):
                broker.completed(each, Done())
        end = time.perf_counter_ns()
        return Answered(body, (answered - start) / 1e3, (end - start_again) / 1e3)


def frame_of(message: ApiMessage, version: int) -> bytes:
    header = encode_request_header(RequestHeader(message.api_key, version, 0, "bench"))
    pieces = encode_request(message, version)
    content = header + b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
    return frame_prefix(len(content)) + content


def _sent(effects: Iterable[Effect]) -> bytes:
    pieces = [piece for each in effects if isinstance(each, Send) for piece in each.pieces]
    return b"".join(bytes(piece) for piece in pieces)  # type: ignore[arg-type]
