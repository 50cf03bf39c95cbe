"""Names of files and directories: searched for keys like everything else, and never shown with one.

Grade P. A partition's directory is named after its topic, and that users choose; what is in no name
that the broker gives is foreign, and searched whole. Paths go into logs, answers and receipts, so a
part that holds a key is shown as `…`.
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.own_files import LOG_DIRS, field_of_dir, is_own
from ledgerstone.erasure.print_table import PrintTable
from ledgerstone.erasure.scan_plan import NO_POSITION, FoundAt
from ledgerstone.erasure.tally import RESIDUE, Tally

_HIDDEN: Final = "…"
_FOREIGN_NAME: Final = "its name"


@dataclass(slots=True)
class PathNames:
    """Paths are those of a report: the number of the log directory, then names."""

    table: PrintTable
    _shown: dict[str, str] = field(default_factory=dict)

    def shown(self, path: str) -> str:
        """The path for people, without any of the keys."""
        return "/".join(self._masked(name) for name in path.split("/"))

    def hidden(self, names: Iterable[str]) -> dict[str, str]:
        """Those that hold a key, as they are to be shown."""
        shown = {name: self._masked(name) for name in names}
        return {name: other for name, other in shown.items() if other != name}

    def _masked(self, name: str) -> str:
        # Names that are the broker's own are so many, and hold nobody's words.
        if is_own(name):
            return name
        if name not in self._shown:
            self._shown[name] = self._without_keys(name)
        return self._shown[name]

    def _without_keys(self, name: str) -> str:
        data = _bytes(name)
        hits = self.table.find_raw(data)
        spans = sorted(zip(hits.position.tolist(), hits.length.tolist(), strict=True))
        if not spans:
            return name
        parts, after = [], 0
        for start, length in spans:
            parts.append(data[after : max(start, after)])
            after = max(after, start + length)
        parts.append(data[after:])
        return _HIDDEN.join(part.decode("utf-8", "replace") for part in parts)

    def look(
        self, log_dirs: Iterable[str], directories: Iterable[str], files: Iterable[str]
    ) -> Tally:
        """Every name once: hits in topics are names, hits in foreign names are residue."""
        tally = Tally()
        places: list[tuple[FoundAt, bytes]] = [
            (FoundAt(str(number), NO_POSITION, field=LOG_DIRS), _bytes(log_dir))
            for number, log_dir in enumerate(log_dirs)
        ]
        for path in directories:
            name = path.rpartition("/")[2]
            own = field_of_dir(name)
            what, content = own if own is not None else (_FOREIGN_NAME, _bytes(name))
            places.append((FoundAt(self.shown(path), NO_POSITION, field=what), content))
        for path in files:
            name = path.rpartition("/")[2]
            if not is_own(name):
                place = FoundAt(self.shown(path), NO_POSITION, field=_FOREIGN_NAME)
                places.append((place, _bytes(name)))
        for index, group in self.table.find_in_fields([content for _, content in places]):
            place = places[index][0]
            if place.field == _FOREIGN_NAME:
                tally.count(RESIDUE, group, [place], 1)
            else:
                tally.count_name(group, place)
        return tally


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")
