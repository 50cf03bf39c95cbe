"""The anatomy page: each partition of a topic as a strip of its segments. Grade D.

Facts come from `server.anatomy_facts`, geometry from `strip` and `strip_time`, words from
`anatomy_words`; the template only writes them down. Each partition is a fragment of its own, so
that one that changes is sent without the others.
"""

from collections.abc import Mapping
from typing import Final

from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.anatomy_facts import anatomy_of
from ledgerstone.server.broker import Broker
from ledgerstone.server.http import HttpRequest
from ledgerstone.server.partition_anatomy import PartitionAnatomy
from ledgerstone.types import TopicPartition
from ledgerstone.web.anatomy_words import about_box, about_horizon, about_pass, legend_of, sentences
from ledgerstone.web.hosting import hosted, topic_facts, topic_of
from ledgerstone.web.router import NotShown, Rendered, SlowAnswer
from ledgerstone.web.strip import STRIP_PX, strip_of
from ledgerstone.web.strip_time import axis_of

FRAGMENT: Final = "anatomy"
# Each takes a millisecond to draw, and a page is drawn in one go.
SHOWN_PARTITIONS: Final = 6
_LABEL_PX: Final = 14


def anatomy_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    topic = topic_of(broker, parts)
    numbers = [each.topic_partition.partition for each in hosted(broker, topic)]
    if not numbers:
        raise NotShown(404, f"No partition of {topic} is hosted here.")
    first = _first(request.query.get("from", "0"), numbers)
    only = request.query.get("partition")
    shown = [each for each in numbers if only in (None, str(each))]
    if not shown:
        raise NotShown(404, f"Partition {only[:20] if only else 0} of {topic} is not hosted here.")
    shown = [each for each in shown if each >= first][:SHOWN_PARTITIONS]
    panels: list[dict[str, object]] = []
    anatomies: list[PartitionAnatomy] = []
    for number in shown:
        anatomy = _anatomy(broker, topic, number)
        anatomies.append(anatomy)
        panels.append({**panel(anatomy), "fragment": fragment_name(topic, number)})
        yield None
    following = [each for each in numbers if each > shown[-1]]
    before = [each for each in numbers if each < shown[0]][-SHOWN_PARTITIONS:]
    facts: dict[str, object] = {
        **topic_facts(broker, topic),
        "panels": panels,
        "legend": legend_of(anatomies),
        "before": before[0] if before and only is None else None,
        "following": following[0] if following and only is None else None,
        "table": panels[0]["strip"] if only is not None else None,
        "live": [fragment_name(topic, number) for number in shown],
    }
    return Rendered("anatomy.html", facts)


def anatomy_fragment(broker: Broker, argument: str) -> Rendered:
    """The argument is a partition's directory name."""
    topic, _, number = argument.rpartition("-")
    if not (number.isascii() and number.isdecimal()) or len(number) > 10:
        raise NotShown(404, f"There is no partition {argument[:260]}.")
    return Rendered("anatomy_fragment.html", {"panel": panel(_anatomy(broker, topic, int(number)))})


def fragment_name(topic: str, number: int) -> str:
    return f"{FRAGMENT}:{topic}-{number}"


def panel(anatomy: PartitionAnatomy) -> dict[str, object]:
    """What the template needs to draw one partition."""
    strip, axis = strip_of(anatomy), axis_of(anatomy)
    top = strip.lanes * _LABEL_PX + 6
    return {
        "about": anatomy,
        "words": sentences(anatomy),
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


def _first(text: str, numbers: list[int]) -> int:
    is_number = text.isascii() and text.isdecimal() and len(text) <= 10
    return min(int(text), numbers[-1]) if is_number else 0


def _anatomy(broker: Broker, topic: str, number: int) -> PartitionAnatomy:
    partition: Partition | None = broker.partitions.find(TopicPartition(topic, number))
    if partition is None:
        raise NotShown(404, f"Partition {number} of {topic} is not hosted here.")
    try:
        return anatomy_of(broker, partition)
    except (OSError, StorageError, KafkaError) as error:
        raise NotShown(503, f"The log of {topic}-{number} cannot be read: {error}") from error
