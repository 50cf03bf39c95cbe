"""The anatomy page: each partition of a topic as a strip of its segments. Grade D.

Facts come from `server.anatomy.facts`, geometry from `strip` and `strip_time`, words from
`anatomy_words`; the template only renders them. Each partition is its own fragment, so
that a change sends only that one.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

from ledgerstone.cleaner.history import Run
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.anatomy.facts import anatomy_of
from ledgerstone.server.anatomy.partition import PartitionAnatomy
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest, Job
from ledgerstone.types import TopicPartition
from ledgerstone.web.anatomy_legend import COLOURS, MARKS, STAGE_LEGEND
from ledgerstone.web.anatomy_words import about_box, about_horizon, about_pass, sentences
from ledgerstone.web.hosting import hosted, not_here, topic_facts, topic_of
from ledgerstone.web.record_at import RecordAddress, course_at, place_in, record_at
from ledgerstone.web.router import NotShown, Rendered, SlowAnswer
from ledgerstone.web.strip import STRIP_PX, strip_of
from ledgerstone.web.strip_time import axis_of
from ledgerstone.web.tombstone_course import course_of_partition
from ledgerstone.web.transactions import open_in

FRAGMENT: Final = "anatomy"
# Each takes a millisecond to draw, and a page is drawn without a break.
SHOWN_PARTITIONS: Final = 6
_LABEL_PX: Final = 14


def anatomy_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    topic = topic_of(broker, parts)
    numbers = [each.topic_partition.partition for each in hosted(broker, topic)]
    if not numbers:
        raise not_here(broker, topic, 0)
    first = _first(request.query.get("from", "0"), numbers)
    only, place = request.query.get("partition"), place_in(request.query)
    if place is not None:
        only = str(place.partition)
    shown = [each for each in numbers if only in (None, str(each))]
    if not shown:
        raise NotShown(404, f"Partition {only[:20] if only else 0} of {topic} is not hosted here.")
    shown = [each for each in shown if each >= first][:SHOWN_PARTITIONS]
    panels: list[dict[str, object]] = []
    anatomies: list[PartitionAnatomy] = []
    for number in shown:
        anatomy = _anatomy(broker, topic, number, request.asker)
        anatomies.append(anatomy)
        record_offset = None if place is None else place.offset
        drawn = panel(anatomy, _runs(broker, topic, number), record_offset)
        panels.append({**drawn, "fragment": fragment_name(topic, number, record_offset)})
        yield None
    record = None if place is None else (yield from _record(broker, topic, place))
    following = [each for each in numbers if each > shown[-1]]
    before = [each for each in numbers if each < shown[0]][-SHOWN_PARTITIONS:]
    facts: dict[str, object] = {
        **topic_facts(broker, topic),
        "panels": panels,
        "legend": COLOURS,
        "marks": MARKS,
        "stage_entries": STAGE_LEGEND,
        "record": record,
        "open_transactions": open_in(
            broker, _shown_partitions(broker, topic, shown), request.asker
        ),
        "before": before[0] if before and only is None else None,
        "following": following[0] if following and only is None else None,
        "table": panels[0]["strip"] if only is not None else None,
        "live": [str(each["fragment"]) for each in panels],
    }
    return Rendered("anatomy.html", facts)


def _shown_partitions(broker: Broker, topic: str, shown: Sequence[int]) -> list[Partition]:
    return [each for each in hosted(broker, topic) if each.topic_partition.partition in shown]


def anatomy_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    """The argument is a partition's directory name, optionally @ and the offset of a record."""
    name, _, at = argument.partition("@")
    topic, _, number = name.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= 10
    if not is_number or (at and not (at.isascii() and at.isdecimal() and len(at) <= 19)):
        raise NotShown(404, f"There is no partition {argument[:260]}.")
    anatomy = _anatomy(broker, topic, int(number), asker)
    runs = _runs(broker, topic, int(number))
    return Rendered(
        "anatomy_fragment.html", {"panel": panel(anatomy, runs, int(at) if at else None)}
    )


def fragment_name(topic: str, number: int, record_offset: int | None = None) -> str:
    at = "" if record_offset is None else f"@{record_offset}"
    return f"{FRAGMENT}:{topic}-{number}{at}"


def panel(
    anatomy: PartitionAnatomy, runs: Sequence[Run] = (), record_offset: int | None = None
) -> dict[str, object]:
    """What the template needs to draw one partition."""
    strip, axis = strip_of(anatomy, record_offset), axis_of(anatomy)
    top = strip.lanes * _LABEL_PX + 6
    return {
        "about": anatomy,
        "words": sentences(anatomy),
        "course": course_of_partition(anatomy, runs),
        "strip": strip,
        "boxes": [(box, about_box(box)) for box in strip.boxes],
        "axis": axis,
        "about_pass": about_pass(anatomy),
        "horizons": [
            (mark, about_horizon(mark, anatomy.now_ms)) for mark in (axis.marks if axis else ())
        ],
        "label_px": _LABEL_PX,
        "top": top,
        "strip_px": STRIP_PX,
        "height": top + STRIP_PX + 22,
    }


def _record(
    broker: Broker, topic: str, place: RecordAddress
) -> Generator[Job | None, Any, dict[str, object]]:
    """The record that the page links to: what it is, and its stage if it is the latest."""
    row = yield from record_at(broker, topic, place)
    return {"offset": place.offset, "course": course_at(broker, topic, place, row)}


def _runs(broker: Broker, topic: str, number: int) -> Sequence[Run]:
    partition = broker.partitions.find(TopicPartition(topic, number))
    return [] if partition is None else broker.cleaning.files.runs(partition.log)


def _first(text: str, numbers: list[int]) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= 10
    return min(int(text), numbers[-1]) if is_number else 0


def _anatomy(broker: Broker, topic: str, number: int, asker: Asker) -> PartitionAnatomy:
    partition: Partition | None = broker.partitions.find(TopicPartition(topic, number))
    if partition is None:
        raise not_here(broker, topic, number)
    try:
        return anatomy_of(broker.anatomy, partition, asker)
    except (OSError, StorageError, KafkaError) as error:
        raise NotShown(503, f"The log of {topic}-{number} cannot be read: {error}") from error
