"""Anomalies of group offsets: a position that was overwritten, or never stored. Pure.

A group's offset is a register. An operation takes effect somewhere between its start and its end,
so a fetch may return a commit unless another one lies wholly between the two. What a fetch has
returned had taken effect by then, whatever its own client knows of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ledgerstone.dataclasses import dataclass
from ledgerstone.sim.history.facts import Anomaly, HistoryFacts, TxnFate
from ledgerstone.sim.history.operations import OffsetCommitted, OffsetFetched, OpOutcome
from ledgerstone.types import TopicPartition

# A group's position in a partition.
Register: TypeAlias = tuple[str, TopicPartition]


@dataclass(frozen=True, slots=True)
class _Write:
    """When a commit took effect, at the earliest and at the latest."""

    offset: int
    start_ms: float
    over_ms: float
    is_certain: bool


def stale_group_offsets(facts: HistoryFacts) -> Iterator[Anomaly]:
    writes = {
        register: [write for each in commits if (write := _write(facts, each)) is not None]
        for register, commits in facts.commits.items()
    }
    seen = _seen(facts.fetches, writes)
    for fetch in facts.fetches:
        register = (fetch.group, fetch.place)
        yield from _judge(fetch, writes.get(register, []), seen.get(register, []))


def _seen(
    fetches: Sequence[OffsetFetched], writes: Mapping[Register, Sequence[_Write]]
) -> dict[Register, list[_Write]]:
    """Commits that have taken effect, because a fetch found them."""
    seen: dict[Register, list[_Write]] = {}
    for each in fetches:
        register = (each.group, each.place)
        starts = [
            write.start_ms
            for write in writes.get(register, [])
            if write.offset == each.offset and write.start_ms <= each.over_ms
        ]
        if starts:
            # Which of them it was is not known; it began no earlier than the first.
            found = _Write(each.offset, min(starts), each.over_ms, is_certain=True)
            seen.setdefault(register, []).append(found)
    return seen


def _write(facts: HistoryFacts, commit: OffsetCommitted) -> _Write | None:
    fate = facts.fate(commit.txn)
    if commit.outcome is OpOutcome.FAILED or fate is TxnFate.ABORTED:
        return None
    is_certain = commit.outcome is OpOutcome.OK and fate is TxnFate.COMMITTED
    start_ms, over_ms = commit.start_ms, commit.over_ms
    if commit.txn is not None:
        ended = facts.ended.get(commit.txn)
        over_ms = float("inf") if ended is None else ended.over_ms
        # The offsets count from the end of the transaction on, not from their own request.
        start_ms = commit.start_ms if ended is None else ended.start_ms
    return _Write(commit.offset, start_ms, over_ms, is_certain)


def _judge(
    fetch: OffsetFetched, writes: Sequence[_Write], seen: Sequence[_Write]
) -> Iterator[Anomaly]:
    where = f"{fetch.group} on {fetch.place}"
    done = [each for each in (*writes, *seen) if each.is_certain and each.over_ms < fetch.start_ms]
    if fetch.offset < 0:
        if done:
            text = f"{fetch.client} found no offset of {where}, though {done[-1].offset} was stored"
            yield Anomaly("stale group offset", text)
        return
    candidates = [
        each for each in writes if each.offset == fetch.offset and each.start_ms <= fetch.over_ms
    ]
    if not candidates:
        yield Anomaly(
            "invented group offset", f"{fetch.client} found {fetch.offset} of {where}, never stored"
        )
        return
    newest_start_ms = max((each.start_ms for each in done), default=float("-inf"))
    # An uncertain commit may take effect at any time after its start, also after all the others.
    if all(each.is_certain and each.over_ms < newest_start_ms for each in candidates):
        newest = max(done, key=lambda each: each.start_ms)
        text = f"{fetch.client} found {fetch.offset} of {where}, after {newest.offset} was stored"
        yield Anomaly("stale group offset", text)
