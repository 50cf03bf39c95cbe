"""One round of questions to every other broker, before erasures are looked at. Grade D.

First what groups have committed, then how far replicas are: a group that had committed past a
tombstone which every replica still has afterwards has met it. A broker that does not answer is part
of the result, with its reason. Contract: erasure/README.md, "Several brokers".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from ledgerstone.clock import Clock
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.host_messages import (
    MAX_QUESTIONS,
    ReplicaWord,
    TombstoneQuestion,
    WorkKind,
    decoded,
    encoded,
    questions_json,
    words_of,
)
from ledgerstone.errors import InvalidRequest
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.server.erasing.needs import Committed
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered

_PIPELINE: Final = '{"at_ms":0}'
# Of groups that one broker tells of one topic; the rest is counted.
MAX_TOLD_GROUPS: Final = 2_048
# Of topics in one request.
MAX_TOPICS: Final = 100
_BEING_ASKED: Final = "it is being asked"
# A group, a partition, the committed offset, whether a pipeline committed it, and when.
GroupRow = tuple[str, int, int, bool, int]


@dataclass(slots=True, kw_only=True)
class Survey:
    """What the others said. Times are this broker's."""

    words: dict[tuple[int, tuple[str, int, int, str]], ReplicaWord | None] = field(
        default_factory=dict
    )
    silent: dict[int, str] = field(default_factory=dict)  # brokers without an answer, and why
    gone: dict[tuple[int, str], dict[int, int | None]] = field(default_factory=dict)
    groups: dict[str, dict[str, dict[int, CommittedOffset]]] = field(default_factory=dict)
    more_groups: dict[str, int] = field(default_factory=dict)
    loaded: set[int] = field(default_factory=set)  # partitions of the offsets topic

    def add_groups(self, topic: str, rows: Sequence[GroupRow], more: int) -> None:
        """TypeError or ValueError where a row is none."""
        found = self.groups.setdefault(topic, {})
        for row in rows:
            group, partition, offset, is_pipeline, committed_ms = row
            numbers = (partition, offset, committed_ms, more)
            if type(group) is not str or any(type(each) is not int for each in numbers):
                raise TypeError(f"{row!r:.80} is no group")
            found.setdefault(group, {})[partition] = CommittedOffset(
                offset,
                metadata=_PIPELINE if is_pipeline else "",
                commit_timestamp_ms=committed_ms,
            )
        self.more_groups[topic] = self.more_groups.get(topic, 0) + more

    def word_of(self, broker_id: int, question: TombstoneQuestion) -> ReplicaWord | str:
        """A text says why there is none."""
        if broker_id in self.silent:
            return self.silent[broker_id]
        word = self.words.get((broker_id, question.place), _BEING_ASKED)
        return f"broker {broker_id} does not host it yet" if word is None else word

    def left_of(self, broker_id: int, topic: str) -> Mapping[int, int | None] | str:
        """Of a topic that is gone: partitions whose files a broker still has, and until when."""
        if broker_id in self.silent:
            return self.silent[broker_id]
        return self.gone.get((broker_id, topic), _BEING_ASKED)


@dataclass(frozen=True, slots=True)
class SurveyedOffsets:
    """`needs.GroupOffsets` as the brokers told them, this one included."""

    survey: Survey | None
    image: Callable[[], MetadataImage]

    def committed_on(self, topic: str) -> Committed:
        return {} if self.survey is None else self.survey.groups.get(topic, {})

    def are_loaded(self) -> bool:
        topic = self.image().topics.get(CONSUMER_OFFSETS)
        if self.survey is None:
            return False
        return topic is None or self.survey.loaded >= topic.partitions.keys()


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyPlan:
    """What to ask: each broker about the tombstones in its own replicas."""

    questions: Mapping[int, Sequence[TombstoneQuestion]]
    group_topics: Sequence[str]
    gone_topics: Sequence[str]


@dataclass(slots=True, kw_only=True)
class Surveys:
    clock: Clock
    others: OtherBrokers
    _number: int = 0  # answers to an earlier survey are not heard
    is_under_way: bool = False

    def begin(self, plan: SurveyPlan, own: Survey, on_end: Callable[[Survey], None]) -> None:
        """`own` is what is known here of groups, from before anybody is asked."""
        self._number += 1
        self.is_under_way = True
        _Round(self, self._number, plan, own, on_end).ask_for_groups()

    def forget(self) -> None:
        self._number += 1
        self.is_under_way = False

    def is_current(self, number: int) -> bool:
        return self.is_under_way and number == self._number


class _Round:
    def __init__(
        self,
        surveys: Surveys,
        number: int,
        plan: SurveyPlan,
        own: Survey,
        on_end: Callable[[Survey], None],
    ) -> None:
        self._surveys = surveys
        self._number = number
        self._plan = plan
        self._on_end = on_end
        self._survey = own
        self._left = 0
        others = surveys.others
        for broker_id in others.ids:
            if (why := others.why_silent(broker_id)) is not None:
                self._survey.silent[broker_id] = why

    def ask_for_groups(self) -> None:
        topics = self._plan.group_topics
        requests = [
            (broker_id, WorkKind.GROUPS, encoded({"topics": some}), self._take_groups)
            for broker_id in self._asked()
            for some in _slices(topics, MAX_TOPICS)
        ]
        self._ask(requests, self._ask_for_facts)

    def _ask_for_facts(self) -> None:
        now_ms = self._surveys.clock.now_ms()
        requests: list[tuple[int, WorkKind, bytes, _Taking]] = []
        for broker_id in self._asked():
            for some in _slices(self._plan.questions.get(broker_id, ()), MAX_QUESTIONS):
                content = encoded(questions_json(some, now_ms=now_ms))
                take = partial(self._take_words, some, now_ms)
                requests.append((broker_id, WorkKind.FACTS, content, take))
            for topics in _slices(self._plan.gone_topics, MAX_TOPICS):
                content = encoded({"topics": topics})
                take = partial(self._take_gone, topics, now_ms)
                requests.append((broker_id, WorkKind.GONE, content, take))
        self._ask(requests, self._end)

    def _asked(self) -> list[int]:
        silent = self._survey.silent
        return [each for each in self._surveys.others.ids if each not in silent]

    def _ask(
        self,
        requests: Sequence[tuple[int, WorkKind, bytes, "_Taking"]],
        then: Callable[[], None],
    ) -> None:
        self._left = len(requests)
        if not requests:
            then()
        for broker_id, kind, content, take in requests:
            heard = partial(self._heard, broker_id, take, then)
            self._surveys.others.ask(broker_id, kind, heard, content)

    def _heard(
        self,
        broker_id: int,
        take: "_Taking",
        then: Callable[[], None],
        word: Said | Unanswered,
    ) -> None:
        if not self._surveys.is_current(self._number):
            return
        if isinstance(word, Unanswered):
            self._survey.silent[broker_id] = word.reason
        else:
            try:
                take(broker_id, decoded(word.content))
            except InvalidRequest as error:
                self._survey.silent[broker_id] = f"broker {broker_id} said nonsense: {error}"
        self._left -= 1
        if self._left == 0:
            then()

    def _end(self) -> None:
        self._surveys.is_under_way = False
        self._on_end(self._survey)

    # -- answers ----------------------------------------------------------------------------------

    def _take_words(
        self,
        questions: Sequence[TombstoneQuestion],
        asked_ms: int,
        broker_id: int,
        content: Mapping[str, Any],
    ) -> None:
        # By when they were asked: what is told as past is not made younger by the way it took.
        words = words_of(content, now_ms=asked_ms)
        if len(words) != len(questions):
            raise InvalidRequest(f"{len(words)} words to {len(questions)} questions")
        for question, word in zip(questions, words, strict=True):
            if word is not None:
                word = word._replace(facts=word.facts._replace(node_id=broker_id))
            self._survey.words[broker_id, question.place] = word

    def _take_gone(
        self,
        topics: Sequence[str],
        asked_ms: int,
        broker_id: int,
        content: Mapping[str, Any],
    ) -> None:
        for topic in topics:
            found = content.get(topic)
            if not isinstance(found, list):
                raise InvalidRequest("no word of a topic")
            left: dict[int, int | None] = {}
            for each in found:
                number, due_ms = _pair(each)
                left[number] = None if due_ms is None else due_ms + asked_ms
            self._survey.gone[broker_id, topic] = left

    def _take_groups(self, broker_id: int, content: Mapping[str, Any]) -> None:
        loaded, topics = content.get("loaded"), content.get("topics")
        if not isinstance(loaded, list) or not all(type(each) is int for each in loaded):
            raise InvalidRequest("no list of loaded partitions")
        if not isinstance(topics, dict):
            raise InvalidRequest("no groups")
        try:
            for topic, (rows, more) in topics.items():
                self._survey.add_groups(topic, rows, more)
        except (TypeError, ValueError):
            raise InvalidRequest("groups that are none") from None
        self._survey.loaded.update(loaded)


_Taking = Callable[[int, Mapping[str, Any]], None]


def _slices(items: Sequence[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def _pair(content: object) -> tuple[int, int | None]:
    if isinstance(content, list) and len(content) == 2 and type(content[0]) is int:
        number, due_ms = content
        if due_ms is None or type(due_ms) is int:
            return number, due_ms
    raise InvalidRequest("no word of a partition")
