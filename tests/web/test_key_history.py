"""Where did my key go: found, superseded, deleted, gone; hostile keys; searches that take long."""

from typing import Any

from ledgerstone.cleaner.history import Run
from ledgerstone.cleaner.plan import PassStats
from ledgerstone.client.partitioner import partition_of
from ledgerstone.erasure.scan_plan import SearchPlan
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.types import TopicPartition
from ledgerstone.web.key_history import MOST_SEARCHES
from ledgerstone.web.key_history_words import pass_rows
from tests.unit.server.erasing_kit import DAY_MS, ErasingMachine
from tests.web.hostile import STRINGS
from tests.web.kit import COMPACTED, Parsed, Visitor, append

KEYS = f"/topics/{COMPACTED}/keys"


def ask(visitor: Visitor, key: str, how: str = "text", **more: str) -> Parsed:
    """As the form sends it; a search only reads, so it needs no secret."""
    page = visitor.post(KEYS, {"key": key, "key_as": how, **more}, csrf="")
    assert page.status == 200, page
    return Parsed(str(page.body))


def again(page: Parsed) -> dict[str, str] | None:
    """What the page polls with while the search runs; None once it is done."""
    forms = [each for each in page.all("form") if "data-busy" in each]
    if not forms:
        return None
    hidden = [each for each in page.all("input") if each.get("type") == "hidden"]
    return {str(each["name"]): str(each["value"]) for each in hidden}


def found(machine: ErasingMachine, visitor: Visitor, key: str, how: str = "text") -> Parsed:
    """The page once its search is done."""
    fields = again(ask(visitor, key, how))
    assert fields is not None
    machine.tick()
    return ask(visitor, fields["key"], fields["key_as"], search=fields["search"])


def write(machine: ErasingMachine, key: bytes, value: bytes | None) -> int:
    return append(machine, COMPACTED, key, value, partition=partition_of(key, 2))


def compact(machine: ErasingMachine, key: bytes) -> None:
    machine.broker.cleaning.ask(TopicPartition(COMPACTED, partition_of(key, 2)))
    machine.tick()


def test_page_without_a_key_asks_for_one(visitor: Visitor) -> None:
    page = Parsed(visitor.shown(KEYS))

    assert [each.get("name") for each in page.all("input")] == ["key"]
    assert again(page) is None


def test_live_key_has_its_value_and_what_it_supersedes(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    write(machine, b"eve", b"1")
    write(machine, b"eve", b"2")

    page = found(machine, visitor, "eve")

    assert "The key is live" in page.text
    assert "One earlier record is still on disk" in page.text
    assert "it is the key's latest value, which stays" in page.text
    assert "superseded by a later record of its key" in page.text


def test_deleted_key_has_its_tombstone_and_when_that_may_go(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    write(machine, b"eve", b"1")
    write(machine, b"eve", None)

    fresh = found(machine, visitor, "eve")
    compact(machine, b"eve")
    stamped = found(machine, visitor, "eve")

    assert "The key is deleted" in fresh.text
    assert "No pass has seen that tombstone yet." in fresh.text
    assert "It stays readable until" in stamped.text
    assert "reached the latest record: removed every earlier record of the key" in stamped.text


def test_key_that_is_gone_says_which_pass_may_have_taken_it(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    write(machine, b"eve", b"1")
    write(machine, b"eve", None)
    compact(machine, b"eve")
    machine.clock.advance(ms=2 * DAY_MS)
    compact(machine, b"eve")
    machine.advance(120_000)

    page = found(machine, visitor, "eve")

    assert "No record of this key is in the log" in page.text
    assert "the key's may have been one of them" in page.text
    assert "Tombstones are gone below offset" in page.text


def test_key_in_a_partition_it_does_not_belong_to_is_odd(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    home = partition_of(b"eve", 2)
    append(machine, COMPACTED, b"eve", b"1", partition=1 - home)

    page = found(machine, visitor, "eve")

    assert f"By its hash the key belongs to partition {home}: what stands in" in page.text


def test_key_may_be_written_in_hexadecimal(machine: ErasingMachine, visitor: Visitor) -> None:
    write(machine, b"\x00\xff", b"1")

    page = found(machine, visitor, "00ff", "hex")

    assert "The key is live" in page.text


def test_key_that_is_not_as_it_was_said_to_be_is_refused(visitor: Visitor) -> None:
    assert visitor.post(KEYS, {"key": "xyz", "key_as": "hex"}).status == 400


def test_failed_search_says_why(machine: ErasingMachine, visitor: Visitor) -> None:
    machine.held_scans = []
    fields = again(ask(visitor, "alice"))
    assert fields is not None
    machine.tick()
    (held,) = [each for each in machine.held_scans if isinstance(each.plan, SearchPlan)]
    machine.finish_scan(held, ScanFailed("the disk is gone"))

    page = ask(visitor, fields["key"], search=fields["search"])

    assert "The search failed: the disk is gone" in page.text


def test_page_asks_again_while_the_search_goes_on(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    machine.held_scans = []
    fields = again(ask(visitor, "alice"))
    assert fields is not None
    machine.tick()

    second = ask(visitor, "alice", search=fields["search"])

    assert again(second) == fields
    assert len(machine.held_scans) == 1


def test_search_of_another_key_is_not_taken_for_this_ones(
    machine: ErasingMachine, visitor: Visitor
) -> None:
    fields = again(ask(visitor, "alice"))
    assert fields is not None
    machine.tick()

    other = ask(visitor, "bob", search=fields["search"])

    assert again(other) is not None


def test_searches_at_a_time_are_bounded(machine: ErasingMachine, visitor: Visitor) -> None:
    machine.held_scans = []
    statuses = [visitor.post(KEYS, {"key": str(n)}).status for n in range(MOST_SEARCHES + 1)]

    assert statuses == [200] * MOST_SEARCHES + [503]


def test_hostile_keys_are_shown_as_text(machine: ErasingMachine, visitor: Visitor) -> None:
    keys = [text.encode("utf-8", "surrogatepass") for text in STRINGS]
    for key in keys:
        write(machine, key, b"1")
    # Has records of every kind: live, superseded, in files that wait for their end.
    ours = set(found(machine, visitor, "alice").skeleton)

    pages = [
        found(machine, visitor, key.hex(), "hex")
        if b"\r\n" in key or _is_no_text(key)
        else found(machine, visitor, key.decode())
        for key in keys
    ]

    assert all("The key is live" in page.text for page in pages)
    for key, page in zip(keys, pages, strict=True):
        assert set(page.skeleton) <= ours, key
        assert not page.unbalanced, key


def _is_no_text(key: bytes) -> bool:
    """What a browser could not send as text."""
    try:
        key.decode()
    except UnicodeDecodeError:
        return True
    return False


def run(first_dirty: int, end: int, **stats: Any) -> Run:
    return Run(
        started_ms=0,
        ended_ms=1,
        duration_ms=1,
        reason="a pass was requested",
        outcome="cleaned",
        detail="",
        first_dirty_offset=first_dirty,
        end_offset=end,
        segments_before=1,
        segments_after=1,
        stats=PassStats(**stats),
    )


def test_passes_are_told_by_where_the_latest_record_lay() -> None:
    runs = [run(0, 10), run(10, 20), run(20, 30)]

    rows = pass_rows(0, runs, 15)

    assert [row.meaning.partition(":")[0] for row in rows] == [
        "began after the latest record",
        "reached the latest record",
        "ended before the latest record",
    ]


def test_pass_that_failed_took_nothing() -> None:
    failed = run(0, 10)
    failed = Run(**{**{f: getattr(failed, f) for f in Run.__slots__}, "outcome": "failed"})

    assert pass_rows(0, [failed], 5) == []
