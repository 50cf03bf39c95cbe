"""The search for keys on every replica of a topic, and what it means for each erasure. Grade D.

Leaders say where the key is and whether this erasure has written its tombstone already. The other
replicas count too: one that has not been compacted may hold what its leader no longer has. Without
their word a key that is found goes on; that it is nowhere is not said.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from ledgerstone.client.partitioner import partition_of
from ledgerstone.erasure.erasure import Erasure, PartitionEnd, SearchedFiles, Tombstone
from ledgerstone.erasure.facts import SearchOutcome
from ledgerstone.erasure.host_messages import (
    MAX_KEYS,
    SearchWord,
    decoded,
    keys_json,
    search_word_of,
)
from ledgerstone.erasure.scan_plan import DEFAULT_MAX_PLACES, KeyPrints, SearchReport
from ledgerstone.errors import CorruptRecord, InvalidRequest
from ledgerstone.metadata.image import TopicImage
from ledgerstone.server.erasing.looking import OnSearched, search_here
from ledgerstone.server.erasing.others import Unanswered
from ledgerstone.server.erasing.scans import ScanFailed, SearchTicket
from ledgerstone.server.erasing.steps import unsealed
from ledgerstone.server.erasing.work import ErasingWork
from ledgerstone.storage.filenames import parse_file_name
from ledgerstone.uuid_text import uuid_to_text

_PLACES_PER_KEY: Final = 8


class Gathering:
    """Searches of one topic on several brokers; `merged` once all have ended."""

    def __init__(
        self,
        work: ErasingWork,
        topic: str,
        by_broker: Mapping[int, Sequence[int]],
        *,
        is_for_user: bool = False,
    ) -> None:
        self._work = work
        self._topic = topic
        self._by_broker = by_broker
        self._is_for_user = is_for_user
        self.words: dict[int, SearchWord | ScanFailed] = {}

    def start(
        self, keys: KeyPrints, max_places: int, when_all: Callable[["Gathering"], None]
    ) -> None:
        def ended(broker_id: int, word: SearchWord | ScanFailed) -> None:
            self.words[broker_id] = word
            if len(self.words) == len(self._by_broker):
                when_all(self)

        work, topic_id = self._work, self._work.image().topics[self._topic].topic_id
        if not self._by_broker:
            when_all(self)
        for broker_id, numbers in self._by_broker.items():
            on_end: OnSearched = partial(ended, broker_id)
            if broker_id == work.config.node_id:
                search_here(work, self._topic, numbers, keys, max_places, on_end)
                continue
            content = {
                "what": "search",
                "topic": self._topic,
                "topic_id": uuid_to_text(topic_id),
                "partitions": list(numbers),
                "max_places": max_places,
                "keys": keys_json(keys),
            }
            heard = partial(_heard, on_end)
            work.jobs.start(broker_id, content, heard, is_for_user=self._is_for_user)

    def report(self) -> SearchReport:
        """Of all that searched, in the order of the brokers."""
        reports = [
            word.report for _, word in sorted(self.words.items()) if isinstance(word, SearchWord)
        ]
        return SearchReport(
            spans=tuple(span for each in reports for span in each.spans),
            places=tuple(place for each in reports for place in each.places),
            is_truncated=any(each.is_truncated for each in reports),
            scanned_bytes=sum(each.scanned_bytes for each in reports),
            files=sum(each.files for each in reports),
            damaged=tuple(damage for each in reports for damage in each.damaged),
            vanished=tuple(name for each in reports for name in each.vanished),
        )

    def trouble(self, brokers: Sequence[int]) -> str | None:
        """Why one of these has not searched, or not everything."""
        for broker_id in brokers:
            word = self.words.get(broker_id)
            who = "" if self._work.is_alone else f"broker {broker_id}: "
            if isinstance(word, ScanFailed):
                return f"{who}{word.reason}"
            if word is not None and word.report.trouble is not None:
                return f"{who}{word.report.trouble}"
        return None


def _heard(on_end: OnSearched, result: bytes | Unanswered) -> None:
    if isinstance(result, Unanswered):
        on_end(ScanFailed(result.reason))
        return
    try:
        on_end(search_word_of(decoded(result)))
    except InvalidRequest as error:
        on_end(ScanFailed(str(error)))


def replicas_to_search(work: ErasingWork, topic: TopicImage) -> dict[int, list[int]]:
    """By broker that answers: the partitions it hosts."""
    alive, found = work.others.alive, dict[int, list[int]]()
    for number, state in sorted(topic.partitions.items()):
        for broker_id in state.replicas:
            if broker_id in alive:
                found.setdefault(broker_id, []).append(number)
    return dict(sorted(found.items()))


def leaders_to_search(topic: TopicImage) -> dict[int, list[int]]:
    found = dict[int, list[int]]()
    for number, state in sorted(topic.partitions.items()):
        found.setdefault(state.leader, []).append(number)
    return dict(sorted(found.items()))


def where(work: ErasingWork, topic: str, keys: KeyPrints) -> SearchTicket:
    """Where a key is, as the leaders of the partitions see it."""
    ticket = work.tickets.open(topic)
    image = work.image().topics[topic]
    leaders = leaders_to_search(image)
    gathering = Gathering(work, topic, leaders, is_for_user=True)

    def ended(gathered: Gathering) -> None:
        trouble = next(
            (each for each in gathered.words.values() if isinstance(each, ScanFailed)), None
        )
        work.tickets.close(ticket.number, trouble or gathered.report())

    gathering.start(keys, DEFAULT_MAX_PLACES, ended)
    return ticket


def where_on_replicas(work: ErasingWork, topic: str, keys: KeyPrints) -> SearchTicket:
    """As every replica has it: one that has not been compacted holds what its leader may not."""
    ticket, image = work.tickets.open(topic), work.image().topics[topic]

    def ended(gathered: Gathering) -> None:
        found: dict[int, SearchReport] = {}
        unseen: list[str] = []
        for broker_id, word in sorted(gathered.words.items()):
            if isinstance(word, SearchWord):
                found[broker_id] = word.report
            else:
                unseen.append(f"broker {broker_id}: {word.reason}")
        assigned = {each for state in image.partitions.values() for each in state.replicas}
        for broker_id in sorted(assigned - gathered.words.keys()):
            why = work.others.why_silent(broker_id) or "it was not asked"
            unseen.append(f"broker {broker_id}: {why}")
        work.tickets.close_replicas(ticket.number, found, unseen, gathered.report())

    gathering = Gathering(work, topic, replicas_to_search(work, image), is_for_user=True)
    gathering.start(keys, DEFAULT_MAX_PLACES, ended)
    return ticket


def search(work: ErasingWork, topic: str, ids: Sequence[str]) -> None:
    image = work.image().topics.get(topic)
    if image is None:
        # Deleted since the erasures were looked at, which may be some turns ago.
        work.look_now()
        return
    ids = ids[:MAX_KEYS]
    erasures = [work.journal.get(each) for each in ids]
    secrets = work.secrets
    assert secrets is not None, "erasures without secrets"
    keys = KeyPrints.under(secrets.print_key, [each.key_print for each in erasures])
    for each in ids:
        work.in_flight[each] = f"a search of {topic} is under way"
    work.searching[topic] = None
    gathering = Gathering(work, topic, replicas_to_search(work, image))
    ended = partial(_searched, work, work.era, image, ids, work.clock.now_ms())
    gathering.start(keys, max(DEFAULT_MAX_PLACES, _PLACES_PER_KEY * len(ids)), ended)


def _searched(
    work: ErasingWork,
    era: int,
    topic: TopicImage,
    ids: Sequence[str],
    started_ms: int,
    gathered: Gathering,
) -> None:
    if work.era != era:
        return
    work.searching.pop(topic.name, None)
    work.look_now()
    now_ms = work.clock.now_ms()
    for index, erasure_id in enumerate(ids):
        work.in_flight.pop(erasure_id, None)
        erasure = work.journal.book.get(erasure_id)
        # It may have been cancelled meanwhile.
        if erasure is not None and erasure.sealed_key is not None:
            found = _outcome(work, erasure, index, topic, gathered)
            looked_at = found.looked_at
            if looked_at is not None:
                looked_at = SearchedFiles(
                    records=looked_at.records,
                    files=looked_at.files,
                    scanned_bytes=looked_at.scanned_bytes,
                    started_ms=started_ms,
                    ended_ms=now_ms,
                    node_ids=looked_at.node_ids,
                )
            work.searches[erasure_id] = found._replace(ended_ms=now_ms, looked_at=looked_at)


def _outcome(
    work: ErasingWork, erasure: Erasure, index: int, topic: TopicImage, gathered: Gathering
) -> SearchOutcome:
    leaders = {number: state.leader for number, state in topic.partitions.items()}
    ends, committed = _ends(leaders, gathered)
    trouble = gathered.trouble(sorted({*leaders.values()}))
    if trouble is None and len(ends) != len(leaders):
        missing = sorted(leaders.keys() - {each.partition for each in ends})
        trouble = f"{topic.name}-{missing[0]} was not searched by its leader"
    try:
        key = unsealed(work, erasure)
    except CorruptRecord as error:
        trouble = str(error)
    if trouble is not None:
        return SearchOutcome(home_partition=0, ends=ends, trouble=trouble)
    own = []
    for each in leaders.values():
        own += _own_tombstones(gathered.words[each], erasure.id, index, leaders, each)
    waiting = [each for each in own if each.offset >= committed[each.partition]]
    if waiting:
        trouble = f"the tombstone at offset {waiting[0].offset} is not replicated yet"
        return SearchOutcome(home_partition=0, ends=ends, trouble=trouble)
    report = gathered.report()
    spans = report.spans_of(index)
    return SearchOutcome(
        home_partition=partition_of(key, len(ends)),
        ends=ends,
        found=spans,
        own_tombstones=tuple(dict.fromkeys(own)),
        looked_at=SearchedFiles(
            records=sum(span.records for span in spans),
            files=report.files,
            scanned_bytes=report.scanned_bytes,
            started_ms=0,
            ended_ms=0,
            node_ids=tuple(sorted(gathered.words)),
        ),
        unseen=_unseen(work, erasure, topic, gathered),
    )


def _ends(
    leaders: Mapping[int, int], gathered: Gathering
) -> tuple[tuple[PartitionEnd, ...], dict[int, int]]:
    """How far the leaders' searches reached, and their high watermarks."""
    ends, committed = [], {}
    for broker_id, word in gathered.words.items():
        for each in word.ends if isinstance(word, SearchWord) else ():
            if leaders.get(each.partition) == broker_id and each.is_leader:
                ends.append(PartitionEnd(each.partition, each.end_offset, each.leader_epoch))
                committed[each.partition] = each.high_watermark
    return tuple(sorted(ends)), committed


def _own_tombstones(
    word: SearchWord | ScanFailed,
    erasure_id: str,
    index: int,
    leaders: Mapping[int, int],
    broker_id: int,
) -> list[Tombstone]:
    """Of partitions that the broker leads."""
    if isinstance(word, ScanFailed):
        return []
    return [
        Tombstone(place.partition, place.offset, place.timestamp_ms, place.leader_epoch)
        for place in word.report.places
        if place.print_index == index
        and place.erasure_id == erasure_id
        and _is_live(place.file)
        and leaders.get(place.partition) == broker_id
    ]


def _unseen(
    work: ErasingWork, erasure: Erasure, topic: TopicImage, gathered: Gathering
) -> str | None:
    """The first replica that was not searched, and why."""
    for number, state in sorted(topic.partitions.items()):
        for broker_id in work.awaited(erasure, state.replicas):
            word = gathered.words.get(broker_id)
            if word is None:
                why = work.others.why_silent(broker_id) or f"broker {broker_id} was not asked"
                return f"{topic.name}-{number}: {why}"
            if isinstance(word, SearchWord) and not any(
                each.partition == number for each in word.ends
            ):
                return f"{topic.name}-{number} is not on broker {broker_id} yet"
    return gathered.trouble(sorted(gathered.words))


def _is_live(file: str) -> bool:
    parsed = parse_file_name(file)
    return parsed is not None and not parsed.suffix
