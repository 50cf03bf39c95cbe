"""The anatomy page: geometry that is to scale, words that are true, markup that is ours alone."""

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.server.anatomy.book import LONGEST_REST_MS
from ledgerstone.server.anatomy.facts import anatomy_of
from ledgerstone.server.anatomy.partition import (
    Horizon,
    NextPass,
    PartitionAnatomy,
    SegmentAnatomy,
)
from ledgerstone.server.http.asker import ANYBODY
from ledgerstone.state.anatomy_plan import Shares
from ledgerstone.types import TopicPartition
from ledgerstone.web.anatomy import anatomy_fragment, fragment_name
from ledgerstone.web.anatomy_words import about_box, about_horizon, sentences
from ledgerstone.web.peers import PeerWatch
from ledgerstone.web.rendering import PageFacts, Renderer
from ledgerstone.web.samples import Samples
from ledgerstone.web.strip import MAX_BOXES, STRIP_PX, WIDTH, grouped, strip_of, widths_of, x_of
from ledgerstone.web.strip_time import axis_of
from tests.kit.in_process import InProcess
from tests.kit.sized import examples
from tests.unit.server.asks import create_topic
from tests.unit.server.erasing_kit import ErasingMachine
from tests.web.kit import COMPACTED, PLAIN, Parsed, Visitor, append

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000


def segment(base_offset: int, end_offset: int, size_bytes: int, **facts: Any) -> SegmentAnatomy:
    known = SegmentAnatomy(
        base_offset=base_offset,
        end_offset=end_offset,
        size_bytes=size_bytes,
        is_active=False,
        is_clean=False,
        largest_timestamp_ms=NOW_MS,
        division=Shares(live=size_bytes),
        records=Shares(live=end_offset - base_offset),
    )
    return known._replace(**facts)


def anatomy(*segments: SegmentAnatomy, **facts: object) -> PartitionAnatomy:
    end_offset = segments[-1].end_offset if segments else 0
    divided = [each.division for each in segments if each.division is not None]
    total = Shares()
    for each in divided:
        total = total.plus(each)
    known: dict[str, object] = {
        "topic": "t",
        "partition": 0,
        "now_ms": NOW_MS,
        "log_start_offset": 0,
        "first_dirty_offset": 0,
        "first_uncleanable_offset": 0,
        "last_stable_offset": end_offset,
        "high_watermark": end_offset,
        "log_end_offset": end_offset,
        "size_bytes": sum(each.size_bytes for each in segments),
        "dirty_ratio": 0.0,
        "compacts": True,
        "segments": segments,
        "horizons": (),
        "fresh_tombstones": 0,
        "next_pass": NextPass(None, "nothing makes one due"),
        "shut_gate": None,
        "keys": 1,
        "division": total,
        "is_current": True,
        "is_under_way": False,
        "sampled_one_in": 1,
        "not_divided": None,
        **facts,
    }
    return PartitionAnatomy(**known)  # type: ignore[arg-type]


def chain(sizes: list[int]) -> list[SegmentAnatomy]:
    last = len(sizes) - 1
    return [
        segment(10 * at, 10 * at + 10, size, is_active=at == last) for at, size in enumerate(sizes)
    ]


# -- geometry -------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 1 << 30), min_size=1, max_size=200))
@examples(100)
def test_widths_fill_the_strip_and_keep_the_order_of_sizes(sizes: list[int]) -> None:
    widths = widths_of(sizes)

    assert sum(widths) == pytest.approx(WIDTH)
    assert min(widths) > 0
    by_size = [width for _, width in sorted(zip(sizes, widths, strict=True))]
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(by_size))


def test_widths_are_to_scale_where_nothing_is_too_thin() -> None:
    assert widths_of([10, 30, 60]) == pytest.approx([10, 30, 60])


@given(st.lists(st.booleans(), min_size=1, max_size=700))
@examples(100)
def test_groups_hold_every_segment_once_and_never_mix_states(clean: list[bool]) -> None:
    segments = [segment(at, at + 1, 1, is_clean=each) for at, each in enumerate(clean)]

    groups = grouped(segments)

    assert [each for group in groups for each in group] == segments
    assert all(len({each.is_clean for each in group}) == 1 for group in groups)


def test_hundreds_of_segments_become_boxes_that_can_be_seen() -> None:
    about = anatomy(*chain([1000] * 900))

    boxes = strip_of(about).boxes

    assert len(boxes) <= MAX_BOXES + 2
    assert sum(box.segments for box in boxes) == 900
    assert sum(box.size_bytes for box in boxes) == about.size_bytes


def test_area_of_each_part_is_its_bytes() -> None:
    shares = Shares(live=5000, tombstone=1000, superseded=4000)
    about = anatomy(segment(0, 10, 10_000, division=shares), segment(10, 20, 10_000))

    first, second = strip_of(about).boxes

    assert {part.kind: part.height for part in first.parts} == pytest.approx(
        {"live": STRIP_PX / 2, "tombstone": STRIP_PX / 10, "superseded": STRIP_PX * 0.4}, abs=0.05
    )
    assert first.width == second.width == WIDTH / 2
    assert sum(part.size_bytes for part in first.parts) == first.size_bytes


def test_single_tombstone_among_millions_of_bytes_is_seen() -> None:
    shares = Shares(live=10_000_000, tombstone=30)
    about = anatomy(segment(0, 10, shares.total, division=shares))

    parts = strip_of(about).boxes[0].parts

    assert sum(part.height for part in parts) == pytest.approx(STRIP_PX, abs=0.2)
    assert min(part.height for part in parts) > 1


def test_marks_lie_where_their_offsets_are() -> None:
    segments = chain([100, 100, 200])
    about = anatomy(*segments, first_dirty_offset=10, last_stable_offset=25, high_watermark=30)

    strip = strip_of(about)

    assert {mark.names: mark.x for mark in strip.marks} == pytest.approx(
        {
            ("log start",): 0.0,
            ("first dirty",): 25.0,
            ("last stable",): 75.0,
            ("high watermark", "end"): 100.0,
        }
    )
    assert x_of(strip.boxes, 5) == pytest.approx(12.5)
    assert [(band.kind, band.x) for band in strip.bands] == [
        ("clean", 0.0),
        ("dirty", 25.0),
        ("active", 50.0),
    ]


def test_labels_of_marks_do_not_lie_on_one_another() -> None:
    about = anatomy(*chain([100] * 4), first_dirty_offset=1, last_stable_offset=2, high_watermark=3)

    marks = strip_of(about).marks

    lanes = [mark.lane for mark in marks if mark.anchor == "start"]
    assert lanes[:3] == [0, 1, 2]


def test_horizons_are_to_scale_in_time() -> None:
    horizons = tuple(Horizon(NOW_MS + n * HOUR_MS, n, n, NOW_MS + n * HOUR_MS, 3) for n in (1, 4))
    about = anatomy(*chain([100]), horizons=horizons)

    axis = axis_of(about)

    assert axis is not None
    first, last = axis.marks
    assert last.x == pytest.approx(4 * first.x)
    assert first.label == "3 tombstones in 1 h"


def test_horizon_that_has_passed_stands_at_now() -> None:
    past = Horizon(NOW_MS - HOUR_MS, 0, 5, NOW_MS - HOUR_MS, None)
    about = anatomy(*chain([100]), horizons=(past,))

    axis = axis_of(about)

    assert axis is not None
    (mark,) = axis.marks
    assert mark.x == 0
    assert mark.is_due
    assert "may go" in about_horizon(mark, NOW_MS)


def test_many_horizons_at_one_place_are_one_mark() -> None:
    horizons = tuple(
        Horizon(NOW_MS + HOUR_MS + n, n, n, NOW_MS + HOUR_MS + n, 2) for n in range(50)
    )
    about = anatomy(*chain([100]), horizons=horizons)

    axis = axis_of(about)

    assert axis is not None
    assert [mark.tombstones for mark in axis.marks] == [100]


def test_nothing_to_come_has_no_axis() -> None:
    assert axis_of(anatomy(*chain([100]))) is None


# -- words ----------------------------------------------------------------------------------------


def test_sentence_has_the_shares_and_when_the_next_pass_comes() -> None:
    about = anatomy(
        segment(0, 10, 1000, division=Shares(live=630, superseded=370)),
        next_pass=NextPass(NOW_MS + 3 * HOUR_MS, "a delete horizon has passed"),
    )

    text = " ".join(sentences(about))

    assert "63 % live, 37 % superseded" in text
    assert "The next pass comes in 3 h, when a delete horizon has passed." in text


def test_estimate_says_that_it_is_one() -> None:
    about = anatomy(*chain([1000]), sampled_one_in=8)

    assert "Estimated: one key in 8 was followed." in sentences(about)


def test_empty_partition_says_so() -> None:
    about = anatomy(segment(0, 0, 0, is_active=True, division=None, records=None))

    assert sentences(about)[0] == "Nothing is written here yet."


def test_what_was_not_divided_says_why() -> None:
    about = anatomy(*chain([1000]), division=None, not_divided="the disk is gone")

    assert "the disk is gone" in sentences(about)[0]


def test_figures_of_before_a_failure_say_that_they_are() -> None:
    about = anatomy(*chain([1000]), is_current=False, not_divided="the disk is gone")

    assert "counting again failed: the disk is gone" in " ".join(sentences(about))


def test_box_tells_every_number_it_is_drawn_from() -> None:
    shares = Shares(live=2048, superseded=1024)
    about = anatomy(segment(0, 10, 4096, division=shares, records=Shares(live=7, superseded=3)))

    text = about_box(strip_of(about).boxes[0])

    assert text.startswith("segment 0 to 9 · sealed, dirty · 4.0 KiB")
    assert "live 50 %, 2.0 KiB in 7 records" in text
    assert "superseded 25 %, 1.0 KiB in 3 records" in text
    assert "1.0 KiB" in text.rpartition("not looked at yet")[2]


# -- the page -------------------------------------------------------------------------------------


def settled(machine: InProcess, visitor: Visitor, address: str) -> Parsed:
    """The page once the figures on it are of this moment."""
    visitor.shown(address)
    for _ in range(3):
        machine.advance(LONGEST_REST_MS)
        visitor.shown(address)
    return Parsed(visitor.shown(address))


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"[0-9.]+", text)]


def test_numbers_in_the_picture_are_the_facts(machine: ErasingMachine, visitor: Visitor) -> None:
    page = settled(machine, visitor, f"/topics/{COMPACTED}/anatomy?partition=0")

    partition = machine.broker.partitions.get(TopicPartition(COMPACTED, 0))
    facts = anatomy_of(machine.broker.anatomy, partition)
    assert facts.is_current
    assert facts.division is not None
    heights: dict[str, float] = {}
    for rect in page.all("rect"):
        kind = str(rect["class"])
        if "y" in rect and kind != "edge":
            area = numbers(str(rect["width"]))[0] * float(str(rect["height"]))
            heights[kind] = heights.get(kind, 0.0) + area
    whole = sum(heights.values())
    for kind, size in facts.division._asdict().items():
        if size:
            assert heights[kind] / whole == pytest.approx(size / facts.size_bytes, abs=0.03)
    assert f"{facts.log_end_offset}" in page.text


@pytest.mark.parametrize("topic", [COMPACTED, PLAIN])
def test_table_of_one_partition_adds_up(
    machine: ErasingMachine, visitor: Visitor, topic: str
) -> None:
    page = settled(machine, visitor, f"/topics/{topic}/anatomy?partition=0")

    partition = machine.broker.partitions.get(TopicPartition(topic, 0))
    assert f"{partition.log.size_bytes:,}".replace(",", "\u202f") in page.text
    assert not page.unbalanced


def test_page_of_an_empty_topic(empty: InProcess) -> None:
    create_topic(empty.connect(), "void", cleanup_policy="compact")

    page = settled(empty, Visitor(empty), "/topics/void/anatomy")

    assert "Nothing is written here yet." in page.text


def test_many_partitions_come_in_pages(empty: InProcess) -> None:
    create_topic(empty.connect(), "wide", 20, cleanup_policy="compact")
    while empty.broker.partitions.backlog:
        empty.tick()
    visitor = Visitor(empty)

    first = Parsed(visitor.shown("/topics/wide/anatomy"))
    second = Parsed(visitor.shown("/topics/wide/anatomy?from=6"))

    labels = [str(each.get("aria-label")) for each in first.all("section")]
    assert labels == [f"Partition {number}" for number in range(6)]
    links = [str(each["href"]) for each in second.all("a")]
    assert "/topics/wide/anatomy?from=12" in links
    assert "/topics/wide/anatomy?from=0" in links


@pytest.mark.parametrize("wrong", ["partition=7", "partition=<b>", "partition=" + "9" * 30])
def test_partition_that_is_not_there_is_not_found(visitor: Visitor, wrong: str) -> None:
    assert visitor.get(f"/topics/{COMPACTED}/anatomy?{wrong}").status == 404


def test_unknown_topic_is_not_found_and_not_repeated_as_markup(visitor: Visitor) -> None:
    page = visitor.get("/topics/%3Cimg%20src=x%20onerror=alert(1)%3E/anatomy")

    assert page.status == 404
    assert not Parsed(str(page.body)).all("img")


def test_keys_are_nowhere_on_the_page(machine: ErasingMachine, visitor: Visitor) -> None:
    append(machine, COMPACTED, b"<script>alert(1)</script>", b"<b>bold</b>")

    page = settled(machine, visitor, f"/topics/{COMPACTED}/anatomy")

    assert "alert(1)" not in page.text
    assert not [each for each in page.all("script") if "src" not in each]


def test_compact_now_is_for_who_has_the_token(visitor: Visitor, stranger: Visitor) -> None:
    path = f"/topics/{COMPACTED}/anatomy"

    may, may_not = Parsed(visitor.shown(path)), Parsed(stranger.shown(path))

    action = f"/topics/{COMPACTED}/compact"
    assert action in [each.get("action") for each in may.all("form")]
    assert action not in [each.get("action") for each in may_not.all("form")]


def test_fragment_is_the_panel_of_the_page(machine: ErasingMachine, visitor: Visitor) -> None:
    settled(machine, visitor, f"/topics/{COMPACTED}/anatomy")
    shared = PageFacts(
        path="",
        now_ms=machine.clock.now_ms(),
        node_id=1,
        cluster_id="",
        bootstrap="",
        version="",
        is_virtual=False,
        samples=Samples(machine.broker),
        peers=PeerWatch(machine.broker),
    )

    argument = fragment_name(COMPACTED, 0).partition(":")[2]
    text = Renderer().render(anatomy_fragment(machine.broker, argument, ANYBODY), shared)

    assert text.strip() in visitor.shown(f"/topics/{COMPACTED}/anatomy")
    assert not Parsed(text).all("form")
