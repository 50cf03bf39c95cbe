"""`erasure.mark` holds the last mark or the one before, whatever happens to the disk."""

from contextlib import suppress

import pytest

from ledgerstone.erasure.journal_chain import JournalMark
from ledgerstone.erasure.journal_mark import MarkFile
from ledgerstone.erasure.mark_slot import SLOT_BYTES
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash

PATH = "/data/erasure.mark"


def mark(number: int) -> JournalMark:
    return JournalMark(number, bytes([number]) * 32)


def disk(seed: int = 1) -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(seed), clock=VirtualClock())
    fs.make_dir("/data")
    fs.fsync_dir("/")
    return fs


def test_last_mark_is_read_back_and_the_file_does_not_grow() -> None:
    fs = disk()
    file = MarkFile(fs, PATH)
    assert file.read() is None

    for number in range(1, 8):
        file.write(mark(number))
        assert MarkFile(fs, PATH).read() == mark(number)

    assert fs.size_of(PATH) <= 2 * SLOT_BYTES


def test_every_flipped_byte_leaves_this_mark_or_the_one_before() -> None:
    fs = disk()
    file = MarkFile(fs, PATH)
    for number in (1, 2, 3):
        file.write(mark(number))
    whole = fs.files()[PATH]

    for position in range(len(whole)):
        fs.open(PATH).pwrite(bytes([whole[position] ^ 1]), position)
        assert MarkFile(fs, PATH).read() in (mark(3), mark(2)), position
        fs.open(PATH).pwrite(whole, 0)


def test_file_that_is_torn_to_nothing_says_nothing() -> None:
    fs = disk()
    MarkFile(fs, PATH).write(mark(1))

    fs.open(PATH).truncate(0)

    assert MarkFile(fs, PATH).read() is None


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("loss", ["kill", "none", "random"])
def test_death_at_any_operation_leaves_the_last_mark_or_the_one_before(
    torn: bool, loss: str
) -> None:
    for operation in range(1, 30):
        fs = disk(operation)
        fs.crash_at(fs.operation_count + operation, torn=torn)
        file, said = MarkFile(fs, PATH), 0
        with suppress(SimulatedCrash):
            for number in range(1, 9):
                file.write(mark(number))
                said = number
        fs.kill() if loss == "kill" else fs.power_loss("none" if loss == "none" else "random")

        found = MarkFile(fs, PATH).read()

        number = 0 if found is None else found.sequence
        assert said <= number <= said + 1, (operation, said, found)


def test_name_that_a_dead_process_made_is_made_safe() -> None:
    fs = disk()
    fs.open(PATH, create=True)
    fs.kill()

    MarkFile(fs, PATH).write(mark(1))
    fs.power_loss("none")

    assert MarkFile(fs, PATH).read() == mark(1)
