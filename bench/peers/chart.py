"""Ratios as an SVG: a bar for each line on a logarithmic scale, its spread, and where one lies.

Pure: lines in, text out. Everything a colour says is said in words as well: the number stands at
the end of its bar, and the picture has a title and a description for those who cannot see it.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from bench.peers.measures import Line, Ratio

LABEL_WIDTH: Final = 430
PLOT_WIDTH: Final = 420
VALUE_WIDTH: Final = 150
ROW_HEIGHT: Final = 26
TOP: Final = 58
BOTTOM: Final = 46
STEPS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)

STYLE: Final = """
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.small { font-size: 11px; fill: #59636e; }
.grid { stroke: #d1d9e0; }
.one { stroke: #1f2328; stroke-width: 1.5; }
.ahead { fill: #1a7f5a; } .behind { fill: #b3541e; } .cpu { fill: #8aa4c8; }
.spread { stroke: #1f2328; }
.paper { fill: #ffffff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; } .small { fill: #9198a1; } .paper { fill: #0d1117; }
  .grid { stroke: #30363d; } .one, .spread { stroke: #e6edf3; }
  .ahead { fill: #3fb68b; } .behind { fill: #e0823d; } .cpu { fill: #4c6a94; }
}
"""


def draw(title: str, lines: Sequence[Line]) -> str:
    """An empty picture says so: a run without Apache Kafka has figures but no ratios."""
    drawn = [(line, ratio) for line in lines if (ratio := line.ratio) is not None]
    by_cpu = [cpu for line, _ in drawn if (cpu := line.cpu_ratio) is not None]
    scale = Scale([*(ratio for _, ratio in drawn), *by_cpu])
    height = TOP + ROW_HEIGHT * max(1, len(drawn)) + BOTTOM
    width = LABEL_WIDTH + PLOT_WIDTH + VALUE_WIDTH
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}: Ledgerstone over Apache Kafka</title>',
        f'<desc id="desc">{escape(describe(drawn))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
        '<text class="small" x="12" y="42">times better than Apache Kafka, logarithmic; '
        "median, lowest and highest round</text>",
    ]
    parts += scale.grid(height)
    for number, (line, ratio) in enumerate(drawn):
        parts += _row(line, ratio, TOP + number * ROW_HEIGHT, scale)
    if not drawn:
        parts.append(f'<text x="12" y="{TOP + 16}">Apache Kafka was not there to compare.</text>')
    parts.append(_legend(height, has_cpu=any(line.cpu_ratio for line, _ in drawn)))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def describe(drawn: Sequence[tuple[Line, Ratio]]) -> str:
    """What the bars show, for a reader who hears it."""
    if not drawn:
        return "No ratios: Apache Kafka was not there to compare."
    return "; ".join(f"{line.name}: {ratio.middle:.2f} times" for line, ratio in drawn)


class Scale:
    """Where a ratio lies across. Always has one on it, and room for every spread."""

    def __init__(self, ratios: Sequence[Ratio]) -> None:
        low = min([0.5, *(ratio.low for ratio in ratios)])
        high = max([2.0, *(ratio.high for ratio in ratios)])
        self._low = math.log(max(low, STEPS[0]) / 1.1)
        self._high = math.log(min(high, STEPS[-1]) * 1.1)

    def x(self, ratio: float) -> float:
        share = (math.log(max(ratio, 1e-9)) - self._low) / (self._high - self._low)
        return round(LABEL_WIDTH + PLOT_WIDTH * min(1.0, max(0.0, share)), 1)

    def grid(self, height: int) -> list[str]:
        found = []
        bottom = height - BOTTOM
        for step in STEPS:
            if not self._low <= math.log(step) <= self._high:
                continue
            x = self.x(step)
            style = "one" if step == 1 else "grid"
            found.append(f'<line class="{style}" x1="{x}" y1="{TOP - 6}" x2="{x}" y2="{bottom}"/>')
            found.append(
                f'<text class="small" text-anchor="middle" x="{x}" y="{bottom + 14}">{step:g}×'
                "</text>"
            )
        return found


def _row(line: Line, ratio: Ratio, top: float, scale: Scale) -> list[str]:
    middle = top + 9
    cpu = line.cpu_ratio
    value = f"{ratio.middle:.2f}×" + (f", CPU {cpu.middle:.2f}×" if cpu else "")
    parts = [
        f'<text text-anchor="end" x="{LABEL_WIDTH - 8}" y="{middle + 4}">'
        f"{escape(line.name)}</text>",
        _bar(ratio.middle, middle - 6, 11, scale, "ahead" if ratio.middle >= 1 else "behind"),
        f'<line class="spread" x1="{scale.x(ratio.low)}" y1="{middle}" '
        f'x2="{scale.x(ratio.high)}" y2="{middle}"/>',
        f'<text x="{LABEL_WIDTH + PLOT_WIDTH + 8}" y="{middle + 4}">{value}</text>',
    ]
    if cpu:
        parts.append(_bar(cpu.middle, middle + 6, 4, scale, "cpu"))
    return parts


def _bar(ratio: float, y: float, height: int, scale: Scale, style: str) -> str:
    start, end = sorted((scale.x(1), scale.x(ratio)))
    width = max(1.0, round(end - start, 1))
    return f'<rect class="{style}" x="{start}" y="{y}" width="{width}" height="{height}"/>'


def _legend(height: int, *, has_cpu: bool) -> str:
    text = "Right of 1×: Ledgerstone is ahead; left: Apache Kafka."
    if has_cpu:
        text += " The thin bar is CPU seconds of the process that works, Kafka's over ours."
    return f'<text class="small" x="12" y="{height - 10}">{text}</text>'
