"""The topic `__audit` as `ledgerstone audit` reads it. Shell.

Lines of all nodes, each once: a line that was sent twice is told once, and one that was redacted
later is told without its names although the topic still has them.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import READ_COMMITTED, FetchConfig, Fetcher
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.security.audit_chain import BrokenChain, parsed
from ledgerstone.types import TopicPartition

AUDIT: Final = TopicPartition("__audit", 0)
# Numbers that were skipped and may still come: as redacted copies.
_MOST_HOLES: Final = 1_000_000


class ChainName(NamedTuple):
    node: int
    chain: str

    def __str__(self) -> str:
        return f"node {self.node} chain {self.chain}"


class TopicLine(NamedTuple):
    chain: ChainName
    seq: int
    data: bytes


def read_topic(client: Client, *, follows: bool = False) -> Iterator[TopicLine]:
    """Every record, in the order of the topic; without `follows`, up to the end it has now."""
    (end,) = (each.offset for each in list_offsets(client, {AUDIT: LATEST}).values())
    (start,) = (each.offset for each in list_offsets(client, {AUDIT: EARLIEST}).values())
    fetcher = Fetcher(client, FetchConfig(isolation_level=READ_COMMITTED))
    consumer = Consumer(fetcher, {AUDIT: start})
    while follows or consumer.positions[AUDIT] < end:
        for _, record in consumer.poll():
            if not follows and record.offset >= end:
                return
            line = _line_of(record.key, record.value)
            if line is not None:
                yield line


def _line_of(key: bytes | None, value: bytes | None) -> TopicLine | None:
    try:
        node, chain, seq = (key or b"").decode("ascii").split("/")
        return TopicLine(ChainName(int(node), chain), int(seq), value or b"")
    except ValueError:
        return None


class EachOnce:
    """Tells lines of a chain that come again from those that come late."""

    def __init__(self) -> None:
        self._highest: dict[ChainName, int] = {}
        self._holes: dict[tuple[ChainName, int], None] = {}

    def is_new(self, line: TopicLine) -> bool:
        highest = self._highest.get(line.chain)
        if highest is None or line.seq > highest:
            skipped = range((highest or line.seq - 1) + 1, line.seq)
            if len(self._holes) + len(skipped) <= _MOST_HOLES:
                self._holes.update(dict.fromkeys((line.chain, each) for each in skipped))
            self._highest[line.chain] = line.seq
            return True
        if (line.chain, line.seq) in self._holes:
            del self._holes[line.chain, line.seq]
            return True
        return False


def shown_lines(client: Client, *, follows: bool) -> Iterator[dict[str, Any]]:
    """For people: each line once, without names that were redacted by now."""
    redacted = {
        (each.chain, each.seq)
        for each in read_topic(client)
        if (line := parsed_or_none(each.data)) is not None and "who" not in line
    }
    once = EachOnce()
    for each in read_topic(client, follows=follows):
        line = parsed_or_none(each.data)
        if line is None or not once.is_new(each):
            continue
        if (each.chain, each.seq) in redacted:
            line.pop("who", None)
        yield line


def parsed_or_none(data: bytes) -> dict[str, Any] | None:
    """None for what is no line: `verify` says so."""
    try:
        return parsed(data, 0)
    except BrokenChain:
        return None
