"""The texts of the anatomy page: for a partition, a box, a mark. Pure."""

from collections.abc import Iterator
from typing import Final

from ledgerstone.server.anatomy.partition import NextPass, PartitionAnatomy
from ledgerstone.state.anatomy_plan import Shares
from ledgerstone.web.strip import Box, StripMark, label
from ledgerstone.web.strip_time import HorizonMark
from ledgerstone.web.wording import grouped, moment, percent, size, span

_NAMES: Final = {
    "live": "live",
    "superseded": "superseded",
    "tombstone": "tombstones",
    "unkeyed": "without a key",
    "other": "markers, aborted or emptied",
}


def sentences(about: PartitionAnatomy) -> list[str]:
    """A description for readers who cannot see the picture."""
    if not about.compacts:
        return list(_what_is_there(about))
    return [*_what_is_there(about), about_pass(about), *_deletes(about)]


def _what_is_there(about: PartitionAnatomy) -> Iterator[str]:
    if about.size_bytes == 0:
        yield "Nothing is written here yet."
        return
    count = len(about.segments)
    where = f"{size(about.size_bytes)} in {count} segment{'' if count == 1 else 's'}"
    if about.division is None or about.division.total == 0:
        why = about.not_divided or "how they divide is being worked out"
        yield f"{where}; {why}."
        return
    shares = ", ".join(_share_words(about.division))
    about_that = "about " if about.sampled_one_in > 1 else ""
    keys = f", {about_that}{grouped(about.keys)} keys" if about.keys is not None else ""
    yield f"{where}{keys}: {about_that}{shares}."
    if about.not_divided is not None:
        yield f"These figures are old; counting again failed: {about.not_divided}."
    if about.sampled_one_in > 1:
        yield f"Estimated: one key in {about.sampled_one_in} was followed."


def _share_words(division: Shares) -> Iterator[str]:
    total = division.total
    for kind, name in _NAMES.items():
        amount = getattr(division, kind)
        if amount:
            yield f"{_share(amount, total)} {name}"


def _share(amount: int, total: int) -> str:
    """A small share is never shown as zero."""
    return percent(amount / total) if amount * 2000 >= total else "under 0.1 %"


def about_pass(about: PartitionAnatomy) -> str:
    coming: NextPass = about.next_pass
    if coming.is_running:
        return f"A pass runs now, because {coming.reason}."
    if coming.at_ms is None:
        gate = f"; {about.shut_gate}" if about.compacts and about.shut_gate else ""
        return f"No pass is to come: {coming.reason}{gate}."
    if coming.at_ms <= about.now_ms:
        return f"A pass is due now, because {coming.reason}."
    return f"The next pass comes in {span(coming.at_ms - about.now_ms)}, when {coming.reason}."


def _deletes(about: PartitionAnatomy) -> Iterator[str]:
    if about.fresh_tombstones:
        words = _tombstones(about.fresh_tombstones)
        yield f"{words} wait{'s' if about.fresh_tombstones == 1 else ''} for a first pass."
    waiting = [each for each in about.horizons if each.tombstones != 0]
    if waiting:
        first = waiting[0]
        when = f"may go in {span(first.goes_at_ms - about.now_ms)}"
        if first.goes_at_ms <= about.now_ms:
            when = "may go with the next pass"
            if first.held_for is not None:
                when = f"is held back for another replica: {first.held_for}"
        counts = [each.tombstones for each in waiting]
        known = [each for each in counts if each is not None]
        words = _tombstones(sum(known)) if len(known) == len(counts) else "Tombstones"
        are = "waits for its" if words.startswith("1 ") else "wait for their"
        yield f"{words} {are} delete horizon; the first {when}."


def _tombstones(count: int) -> str:
    return f"{grouped(count)} tombstone{'' if count == 1 else 's'}"


def about_box(box: Box) -> str:
    what = "segment" if box.segments == 1 else f"{box.segments} segments"
    last = f" to {grouped(box.end_offset - 1)}" if box.end_offset > box.base_offset else ", empty"
    state = "active" if box.is_active else "sealed, clean" if box.is_clean else "sealed, dirty"
    words = [f"{what} {grouped(box.base_offset)}{last} · {state} · {size(box.size_bytes)}"]
    words += _box_shares(box)
    if box.undivided_bytes and box.division is not None:
        words.append(f"not decided or not looked at yet {size(box.undivided_bytes)}")
    if box.largest_timestamp_ms > 0:
        words.append(f"newest record {moment(box.largest_timestamp_ms)}")
    return " · ".join(words)


def _box_shares(box: Box) -> Iterator[str]:
    if box.division is None or box.records is None:
        return
    for kind, name in _NAMES.items():
        amount, records = getattr(box.division, kind), getattr(box.records, kind)
        if amount:
            one, many = ("batch", "batches") if kind == "other" else ("record", "records")
            what = one if records == 1 else many
            share = _share(amount, box.size_bytes)
            yield f"{name} {share}, {size(amount)} in {grouped(records)} {what}"


def about_mark(mark: StripMark) -> str:
    return label(mark.names, mark.offset)


def about_horizon(mark: HorizonMark, now_ms: int) -> str:
    first, last = mark.horizons[0], mark.horizons[-1]
    what = "tombstones" if mark.tombstones is None else _tombstones(mark.tombstones)
    if mark.tombstones == 0:
        what = "tombstones that were superseded since"
    low = min(each.first_offset for each in mark.horizons)
    high = max(each.last_offset for each in mark.horizons)
    where = f"at offset {grouped(low)}" if low == high else f"at {grouped(low)} to {grouped(high)}"
    when = moment(first.goes_at_ms)
    if last.goes_at_ms > first.goes_at_ms:
        when = f"{when} to {moment(last.goes_at_ms)}"
    held = ", held back by a group that has not read them" if mark.is_held else ""
    if first.held_for is not None:
        held = f", held back for another replica: {first.held_for}"
    due = "may go with the next pass, since" if mark.is_due else "may go from"
    return f"{what} {where} {due} {when}{held}"
