"""A row of a benchmark and how rows are shown. Absolute figures drift; ratios stay."""

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple


class Row(NamedTuple):
    """`ratio` is value over limit where more is better, limit over value where less is."""

    name: str
    value: float
    unit: str
    limit_name: str
    limit_value: float
    ratio: float
    target: float | None  # the ratio to reach; None where the figure is only published

    @property
    def verdict(self) -> str:
        if self.target is None:
            return ""
        return "ok" if self.ratio >= self.target else "below"


def paired(name: str, unit: str, limit_name: str, pairs: Sequence[tuple[float, float]]) -> Row:
    """A row from rounds of (ours, limit), both "more is better": medians, and the median ratio.

    Each round measures both within a second of each other, so a slow moment slows both."""
    ours, limits = zip(*pairs, strict=True)
    ratio = median(value / limit for value, limit in pairs)
    return Row(name, median(ours), unit, limit_name, median(limits), ratio, None)


def at_most(name: str, unit: str, value: float, limit: float) -> Row:
    """A figure that must not exceed its own limit."""
    return Row(name, value, unit, "allowed", limit, limit / value if value > 0 else 1.0, 1.0)


def published(name: str, unit: str, value: float) -> Row:
    return Row(name, value, unit, "", 0, 0, None)


def render(rows: Iterable[Row]) -> str:
    """A Markdown table, as docs/benchmarks.md keeps it."""
    lines = [
        "| what | figure | peer or limit in the same run | ratio | target | |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        target = "" if row.target is None else f"{row.target:g}"
        limit = f"{row.limit_name}: {row.limit_value:,.4g} {row.unit}" if row.limit_name else ""
        ratio = f"{row.ratio:.2f}" if row.limit_name else ""
        lines.append(
            f"| {row.name} | {row.value:,.4g} {row.unit} | {limit} | {ratio} | {target} "
            f"| {row.verdict} |"
        )
    return "\n".join(lines)
