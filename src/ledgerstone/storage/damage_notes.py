"""Notes of damage that was found, kept on disk so that restarts remember them. Disk.

One small JSON file in the log directory. A note is removed when an operator acknowledges it, or
when a start finds that the damage is gone. Damage that left a gap stays listed, as the gap stays.
"""

import json
import logging
from collections.abc import Iterable, Mapping
from typing import Any, Final

from ledgerstone.dataclasses import asdict, dataclass, field, replace
from ledgerstone.errors import Damage
from ledgerstone.fs import Filesystem
from ledgerstone.storage.checkpoints import read_if_exists, write_atomically

_LOG: Final = logging.getLogger(__name__)

VERSION: Final = 1
# A disk that fails everywhere must not fill up with notes.
MAX_NOTES: Final = 1000

# The fate of the partition, or of a file outside partitions.
OFFLINE: Final = "offline"
READ_ONLY: Final = "read-only"
CUT: Final = "cut"
TOLD: Final = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """`partition` is the directory's name; empty for a file outside partitions."""

    partition: str
    path: str
    position: int
    size_bytes: int
    reason: str
    is_gap: bool
    outcome: str
    found_ms: int
    acknowledged_ms: int | None = None

    @property
    def is_open(self) -> bool:
        return self.acknowledged_ms is None

    def __str__(self) -> str:
        size = f", {self.size_bytes} bytes" if self.size_bytes else ""
        return f"{self.outcome}: {self.path} at {self.position}{size}: {self.reason}"


@dataclass(slots=True)
class DamageNotes:
    """If the disk refuses writes, memory is the truth and `failure` says why."""

    fs: Filesystem
    path: str
    notes: list[Note] = field(default_factory=list)
    # Sizes of the log files of partitions not opened since a clean stop.
    sizes: dict[str, dict[int, int]] = field(default_factory=dict)
    failure: str | None = None

    @classmethod
    def load(cls, fs: Filesystem, path: str, *, now_ms: int) -> "DamageNotes":
        notes = cls(fs, path)
        try:
            data = read_if_exists(fs, path)
            if data is not None:
                notes._read(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = f"earlier notes cannot be read: {error}"
            notes.add("", [Damage(path, 0, 0, reason)], TOLD, now_ms=now_ms)
        return notes

    def _read(self, content: dict[str, Any]) -> None:
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r}")
        self.notes = [Note(**each) for each in content["notes"]]
        self.sizes = {
            str(name): {int(base): int(size) for base, size in sizes.items()}
            for name, sizes in content["sizes"].items()
        }

    def open_notes(self, partition: str | None = None) -> list[Note]:
        return [note for note in self.notes if note.is_open and partition in (None, note.partition)]

    def has_gaps(self, partition: str) -> bool:
        """Whether parts of it were left out."""
        return any(note.partition == partition and not note.is_open for note in self.notes)

    def accepted_gaps(self, partition: str) -> frozenset[str]:
        return frozenset(
            note.path
            for note in self.notes
            if note.partition == partition and note.is_gap and not note.is_open
        )

    def add(
        self, partition: str, damages: Iterable[Damage], outcome: str, *, now_ms: int
    ) -> list[Note]:
        """Records and logs new damage; a note about the same place is replaced."""
        added = []
        for damage in damages:
            note = Note(
                partition=partition,
                path=damage.path,
                position=damage.position,
                size_bytes=damage.size_bytes,
                reason=damage.reason,
                is_gap=damage.is_gap,
                outcome=outcome,
                found_ms=now_ms,
            )
            _LOG.error(
                "damage partition=%s file=%s position=%d bytes=%d outcome=%s reason=%s",
                partition or "-",
                note.path,
                note.position,
                note.size_bytes,
                outcome,
                note.reason,
            )
            added.append(note)
        places = {(note.path, note.position) for note in added}
        self.notes = [
            note
            for note in self.notes
            if not (note.is_open and (note.path, note.position) in places)
        ]
        self.notes = _bounded([*self.notes, *added])
        self.save()
        return added

    def resolve(self, partition: str) -> None:
        """A start found nothing wrong any more: the files were restored."""
        gone = self.open_notes(partition)
        if gone:
            _LOG.warning("damage is gone partition=%s notes=%d", partition, len(gone))
            self.notes = [note for note in self.notes if note not in gone]
            self.sizes.pop(partition, None)
            self.save()

    def acknowledge(self, partition: str, *, now_ms: int) -> int:
        """An operator knows of it. Gaps stay listed, since readers will meet them again."""
        told = self.open_notes(partition)
        for note in told:
            _LOG.warning("damage acknowledged partition=%s note=%s", partition or "-", note)
        gaps = [note for note in told if note.outcome in (OFFLINE, READ_ONLY)]
        known = [replace(note, acknowledged_ms=now_ms) for note in gaps]
        # Acknowledged once more: the place is the same.
        places = {(note.path, note.position) for note in known}
        kept = [
            note
            for note in self.notes
            if note not in told and (note.path, note.position) not in places
        ]
        self.notes = kept + known
        self.sizes.pop(partition, None)
        self.save()
        return len(told)

    def forget(self, partition: str) -> None:
        """The partition was deleted; its name may be reused."""
        if partition in self.sizes or any(note.partition == partition for note in self.notes):
            self.notes = [note for note in self.notes if note.partition != partition]
            self.sizes.pop(partition, None)
            self.save()

    def keep_sizes(self, partition: str, sizes: Mapping[int, int]) -> None:
        self.sizes[partition] = dict(sizes)
        self.save()

    def save(self) -> None:
        content = {
            "version": VERSION,
            "notes": [asdict(note) for note in self.notes],
            "sizes": {name: dict(sizes) for name, sizes in sorted(self.sizes.items())},
        }
        try:
            if self.notes or self.sizes or self.fs.exists(self.path):
                write_atomically(self.fs, self.path, json.dumps(content, indent=1).encode())
            self.failure = None
        except OSError as error:
            if self.failure is None:
                _LOG.error("damage notes not written file=%s reason=%s", self.path, error)
            self.failure = str(error)


def _bounded(notes: list[Note]) -> list[Note]:
    """At most MAX_NOTES, without the oldest; but what was acknowledged stays. An operator has
    accepted it, and without the note the next start takes its partition offline again. There is
    one for each place that somebody has acknowledged."""
    surplus = max(len(notes) - MAX_NOTES, 0)
    dropped = {id(note) for note in [each for each in notes if each.is_open][:surplus]}
    return [note for note in notes if id(note) not in dropped]
