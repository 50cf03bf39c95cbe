"""Notes of damage: what is kept when there are too many."""

from ledgerstone.errors import Damage
from ledgerstone.storage.damage_notes import MAX_NOTES, OFFLINE, TOLD, DamageNotes
from tests.kit.logs import World
from tests.kit.scenario import disk


def test_gap_that_was_acknowledged_is_remembered_however_much_damage_comes_later() -> None:
    fs = disk(World())
    notes = DamageNotes(fs, "/notes")
    notes.add("t-0", [Damage("/t-0/5.log", 0, 0, "missing", True)], OFFLINE, now_ms=1)
    notes.acknowledge("t-0", now_ms=2)

    found = [Damage("/u-0/0.log", number, 1, "damaged") for number in range(MAX_NOTES + 5)]
    notes.add("u-0", found, TOLD, now_ms=3)

    again = DamageNotes.load(fs, "/notes", now_ms=4)
    assert again.accepted_gaps("t-0") == {"/t-0/5.log"}
    assert len(again.notes) == MAX_NOTES
    assert again.open_notes()[-1].position == MAX_NOTES + 4


def test_place_that_is_acknowledged_again_has_one_note() -> None:
    notes = DamageNotes(disk(World()), "/notes")

    for now_ms in range(3):
        notes.add("t-0", [Damage("/t-0/5.log", 0, 0, "missing", True)], OFFLINE, now_ms=now_ms)
        notes.acknowledge("t-0", now_ms=now_ms)

    assert [note.acknowledged_ms for note in notes.notes] == [2]
