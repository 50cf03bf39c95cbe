"""The kernel that rebuilds a segment: in bounds whatever it is given, and more rows than one call
has room for. That it agrees with the plain way is tests/property/test_segment_rebuild_against_twin.
"""

from collections.abc import Iterator

import pytest

from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels.descriptors import RebuildCall
from ledgerstone.records.kernels.rebuilding import Figures, Rebuilding, RebuildStop
from ledgerstone.records.kernels.source import rebuilding
from tests.oracles.checked_pointer import CheckedPointer, int32s, int64s

NO_EPOCH_YET = -(1 << 40)


def batch(offset: int, producer_id: int = -1, value: bytes = b"v", epoch: int = 0) -> bytes:
    sequence = offset if producer_id >= 0 else -1
    return bytes(
        build_batch(
            [(offset, b"k", value, ())],
            base_offset=offset,
            leader_epoch=epoch,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
        )
    )


def compiled(window: bytes) -> tuple[list[RebuildStop], Figures, list[list[int]]]:
    found = Rebuilding(0, interval_bytes=0, offset_room=99, time_room=99, is_gapless=False)
    found.begin(memoryview(window))
    stops, produced = [found.take()], [at for _, at in found.produced(99)]
    while stops[-1] is RebuildStop.TO_BE_TOLD:
        found.told()
        stops.append(found.take())
        produced += [at for _, at in found.produced(99)]
    keys, times = found.offset_keys.tolist(), found.time_keys.tolist()
    return stops, found.figures, [keys, times, produced]


def uncompiled(window: bytes) -> tuple[list[RebuildStop], Figures, list[list[int]]]:
    rows = len(window) // 61
    state = int64s([0, -1, -1, 0, -1, -1, 0, 0, -1, NO_EPOCH_YET, 0, 0, -1, 0, 0, 0])
    columns = {name: int32s([0] * rows) for name in ("keys", "positions", "time_offsets")}
    wide = {name: int64s([0] * rows) for name in ("times", "ids", "at")}
    call = RebuildCall(
        buffer=CheckedPointer(window),
        end=len(window),
        base_offset=0,
        interval_bytes=0,
        offset_room=99,
        time_room=99,
        is_gapless=0,
        rows=rows,
        state=state,
        offset_keys=columns["keys"],
        offset_positions=columns["positions"],
        time_keys=wide["times"],
        time_offsets=columns["time_offsets"],
        producer_ids=wide["ids"],
        produced_at=wide["at"],
    )
    stops: list[RebuildStop] = []
    found: list[list[int]] = [[], [], []]
    while not stops or stops[-1] is RebuildStop.TO_BE_TOLD:
        if stops:
            state[rebuilding.TOLD_AT] = state[rebuilding.AT]
        stops.append(RebuildStop(rebuilding.rebuild_batches(call)))
        offsets, times, produced = state.numbers[13:16]
        found[0] += columns["keys"].numbers[:offsets]
        found[1] += wide["times"].numbers[:times]
        found[2] += wide["at"].numbers[:produced]
    return stops, Figures(*state.numbers[3:9]), found


def changed(sample: bytes) -> Iterator[bytes]:
    for end in range(len(sample)):
        yield sample[:end]
    for at, byte in enumerate(sample):
        for other in (byte ^ 0x01, byte ^ 0x80, 0xFF):
            yield sample[:at] + bytes([other]) + sample[at + 1 :]


@pytest.mark.parametrize(
    "window",
    [
        batch(3) + batch(4, producer_id=7) + batch(5, epoch=2),
        b"".join(batch(number, producer_id=7, value=b"") for number in range(7)),
    ],
    ids=["producers and epochs", "one producer"],
)
def test_it_stays_in_bounds_and_compiled_answers_the_same(window: bytes) -> None:
    seen = set()

    for each in changed(window):
        answer = uncompiled(each)
        assert answer == compiled(each)
        seen.add(answer[0][-1])

    assert seen == {RebuildStop.NEEDS_BYTES, RebuildStop.IS_OVER}


def test_of_each_producer_the_last_batches_are_named() -> None:
    size = len(batch(0, producer_id=7))
    window = b"".join(batch(number, producer_id=7 + number % 2) for number in range(20))
    found = Rebuilding(0, interval_bytes=0, offset_room=99, time_room=99, is_gapless=True)

    found.begin(memoryview(window))
    assert found.take() is RebuildStop.TO_BE_TOLD
    found.told()
    assert found.take() is RebuildStop.NEEDS_BYTES

    last_two = [(7, 16 * size), (8, 17 * size), (7, 18 * size), (8, 19 * size)]
    assert found.produced(2) == last_two


def test_more_entries_and_producers_than_a_call_has_room_for() -> None:
    count = 3000
    window = b"".join(batch(number, producer_id=number % 2) for number in range(count))
    found = Rebuilding(0, interval_bytes=0, offset_room=9999, time_room=9999, is_gapless=True)

    found.begin(memoryview(window))
    stops, produced = [found.take()], 0
    while stops[-1] in (RebuildStop.TO_BE_TOLD, RebuildStop.ROWS_ARE_FULL):
        if stops[-1] is RebuildStop.TO_BE_TOLD:
            found.told()
        stops.append(found.take())
        produced += len(found.produced(count))

    assert stops.count(RebuildStop.ROWS_ARE_FULL) == 2
    assert produced == count - 1  # the first was told, as its leader epoch is new
    assert found.offset_keys.tolist() == found.time_offsets.tolist() == list(range(1, count))
    assert found.figures.last_offset == count - 1
    assert found.figures.size == len(window)
