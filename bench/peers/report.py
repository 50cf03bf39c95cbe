"""Results as Markdown, and their place in a page: between two markers. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from bench.peers.measures import Line, Ratio, Results, Section, medians

START: Final = "<!-- peers -->"
END: Final = "<!-- /peers -->"


def page_with(page: str, text: str) -> str:
    """The page with what lies between the markers replaced; they come at the end if missing."""
    before, found, rest = page.partition(START)
    if not found:
        return f"{page.rstrip()}\n\n{START}\n{text.strip()}\n{END}\n"
    _, closed, after = rest.partition(END)
    if not closed:
        raise ValueError(f"{START} is never closed by {END}")
    return f"{before}{START}\n{text.strip()}\n{END}{after}"


def render(results: Results, *, charts: str | None = None) -> str:
    """`charts` is where the pictures lie, as the page links to them."""
    parts = ["## Beside Apache Kafka", "", *_preface(results)]
    parts += ["", *_losses(results)]
    for key, section in results.sections.items():
        parts += ["", *_section(key, section, charts)]
    return "\n".join(parts) + "\n"


def _preface(results: Results) -> Iterator[str]:
    yield (
        "Written by `make bench-peers`. A ratio says how many times better Ledgerstone is, the "
        "median of the rounds with the lowest and the highest; below one, Apache Kafka wins. CPU "
        "is user and system time of the process that does the work, all threads and children."
    )
    yield ""
    for name, value in results.machine.items():
        yield f"- {name}: {value}"


def _losses(results: Results) -> Iterator[str]:
    every = [line for section in results.sections.values() for line in section.lines]
    compared = [line for line in every if line.ratio is not None]
    if not compared:
        yield "**Apache Kafka was not there to compare; the figures stand alone.**"
        return
    lost = [line for line in compared if line.verdict == "Kafka wins"]
    short = [line for line in compared if line.verdict.startswith("below")]
    yield (
        f"Of {len(compared)} lines Apache Kafka wins {len(lost)}; in {len(short)} Ledgerstone is "
        "level or ahead and short of its own target."
    )
    if lost:
        yield from _listed("Where Kafka wins, worst first:", lost, lambda line: line.ratio)
    by_cpu = [line for line in compared if (ratio := line.cpu_ratio) and ratio.middle < 1]
    if by_cpu:
        title = "Where Kafka spends less CPU, worst first:"
        yield from _listed(title, by_cpu, lambda line: line.cpu_ratio)


def _listed(title: str, lines: list[Line], ratio: Callable[[Line], Ratio | None]) -> Iterator[str]:
    yield from ("", title, "")
    for line in sorted(lines, key=lambda line: ratio(line) or (0,)):
        yield f"- {line.name}: {ratio(line)}"


def _section(key: str, section: Section, charts: str | None) -> Iterator[str]:
    yield f"### {section.title}"
    yield ""
    yield f"`{section.command}`, {section.when}, {section.seconds:.0f} s. {section.versions}."
    for note in section.notes:
        yield ""
        yield note
    if charts is not None:
        yield ""
        yield f"![{section.title}: Ledgerstone over Apache Kafka]({charts}/{key}.svg)"
    yield ""
    yield from table(section)


def table(section: Section) -> Iterator[str]:
    yield "| what | Ledgerstone | Apache Kafka | ratio | CPU | Kafka's CPU | CPU ratio | |"
    yield "|---|---|---|---|---|---|---|---|"
    for line in section.lines:
        ours, theirs = medians(line.rounds)
        cells = [line.name, _figure(line, ours), _figure(line, theirs), str(line.ratio or "")]
        if line.cpu:
            ours_cpu, their_cpu = medians(line.cpu)
            cells += [
                _number(ours_cpu, line.cpu_unit),
                _number(their_cpu, line.cpu_unit),
                str(line.cpu_ratio or ""),
            ]
        else:
            cells += ["", "", ""]
        yield f"| {' | '.join([*cells, line.verdict])} |"


def _figure(line: Line, value: float | None) -> str:
    text = _number(value, line.unit)
    if value is None or line.record_bytes is None:
        return text
    return f"{text}, {value * 1e3 / line.record_bytes:,.4g} k rec/s"


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.4g} {unit}"
