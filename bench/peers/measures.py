"""What a comparison is: rounds of two figures, their medians, and the ratio with its spread.

Pure. A ratio is always "how many times better Ledgerstone is": above one it wins, whichever way the
unit runs. Rounds pair what was measured one after the other, so a slow minute slows both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple


class Pair(NamedTuple):
    """One round. `theirs` is None where Apache Kafka could not be had."""

    ours: float
    theirs: float | None


class Ratio(NamedTuple):
    """The median of the rounds' ratios, and the lowest and highest of them."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}–{self.high:.2f})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One comparison: the figure itself, and where a broker did the work, its CPU seconds."""

    name: str
    unit: str
    rounds: tuple[Pair, ...]
    more_is_better: bool = True
    target: float = 1.0
    cpu: tuple[Pair, ...] = ()
    cpu_unit: str = ""
    record_bytes: int | None = None  # MB/s of records of this size are records/s as well

    @property
    def ratio(self) -> Ratio | None:
        return ratio_of(self.rounds, more_is_better=self.more_is_better)

    @property
    def cpu_ratio(self) -> Ratio | None:
        return ratio_of(self.cpu, more_is_better=False)

    @property
    def verdict(self) -> str:
        found = self.ratio
        if found is None:
            return ""
        if found.middle < 1:
            return "Kafka wins"
        if found.middle < self.target:
            return f"below {self.target:g}×"
        return "ok"


def ratio_of(pairs: Sequence[Pair], *, more_is_better: bool) -> Ratio | None:
    ratios = []
    for ours, theirs in pairs:
        if theirs is None:
            return None
        above, below = (ours, theirs) if more_is_better else (theirs, ours)
        # Nothing spent on a task is less than any clock here can tell.
        if below <= 0:
            return None
        ratios.append(above / below)
    if not ratios:
        return None
    return Ratio(median(ratios), min(ratios), max(ratios))


def medians(pairs: Sequence[Pair]) -> Pair:
    theirs = [pair.theirs for pair in pairs if pair.theirs is not None]
    return Pair(median(pair.ours for pair in pairs), median(theirs) if theirs else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """What one section of a run found. Each keeps its own stamp, for runs are merged by section."""

    title: str
    when: str
    command: str
    seconds: float
    versions: str
    notes: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    machine: Mapping[str, str]
    sections: Mapping[str, Section]


def to_json(results: Results) -> dict[str, Any]:
    return {
        "machine": dict(results.machine),
        "sections": {
            key: {
                "title": section.title,
                "when": section.when,
                "command": section.command,
                "seconds": round(section.seconds, 1),
                "versions": section.versions,
                "notes": list(section.notes),
                "lines": [_line_to_json(line) for line in section.lines],
            }
            for key, section in results.sections.items()
        },
    }


def from_json(data: Mapping[str, Any]) -> Results:
    return Results(
        machine=dict(data["machine"]),
        sections={
            key: Section(
                title=each["title"],
                when=each["when"],
                command=each["command"],
                seconds=each["seconds"],
                versions=each["versions"],
                notes=tuple(each["notes"]),
                lines=tuple(_line_from_json(line) for line in each["lines"]),
            )
            for key, each in data["sections"].items()
        },
    )


def merged(old: Results | None, new: Results, order: Sequence[str]) -> Results:
    """The newer section wins; the others stay, each with its own stamp and versions."""
    sections = {**(old.sections if old else {}), **new.sections}
    return Results(
        machine=new.machine,
        sections={key: sections[key] for key in order if key in sections},
    )


def _line_to_json(line: Line) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": line.name,
        "unit": line.unit,
        "more_is_better": line.more_is_better,
        "target": line.target,
        "rounds": [_rounded(pair) for pair in line.rounds],
    }
    if line.cpu:
        found |= {"cpu": [_rounded(pair) for pair in line.cpu], "cpu_unit": line.cpu_unit}
    if line.record_bytes is not None:
        found["record_bytes"] = line.record_bytes
    if (ratio := line.ratio) is not None:
        found["ratio"] = [round(each, 3) for each in ratio]
    return found


def _line_from_json(data: Mapping[str, Any]) -> Line:
    return Line(
        name=data["name"],
        unit=data["unit"],
        more_is_better=data["more_is_better"],
        target=data["target"],
        rounds=tuple(Pair(*pair) for pair in data["rounds"]),
        cpu=tuple(Pair(*pair) for pair in data.get("cpu", ())),
        cpu_unit=data.get("cpu_unit", ""),
        record_bytes=data.get("record_bytes"),
    )


def _rounded(pair: Pair) -> list[float | None]:
    return [None if each is None else float(f"{each:.5g}") for each in pair]
