"""The documents for users, and the command lines in them."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^|\n\n)((?: {4}[^\n]*\n?)+)")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PROMPT = re.compile(r"^\s*(?:\$ )?(?:\.venv/bin/)?ledgerstone ")


def documents() -> list[Path]:
    """Everything written by hand for users; tools/reference.py generates the rest from the code."""
    written = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    return sorted(path for path in written if path.parent.name != "reference")


def package_documents() -> list[Path]:
    return sorted((ROOT / "src").rglob("README.md"))


class CommandLine(NamedTuple):
    words: tuple[str, ...]  # without the program's name
    is_whole: bool  # one to be typed; in running text arguments may be left out


def command_lines(text: str) -> Iterator[CommandLine]:
    blocks = [*_FENCED.findall(text), *_INDENTED.findall(_FENCED.sub("\n\n", text))]
    for block in blocks:
        for line in block.splitlines():
            if _PROMPT.match(line):
                yield CommandLine(_words(line), is_whole=True)
    for span in _SPAN.findall(_FENCED.sub("", text)):
        if span.startswith("ledgerstone "):
            yield CommandLine(_words(span), is_whole=False)


def _words(line: str) -> tuple[str, ...]:
    """A line as a shell splits it. Brackets around what may be left out are taken away, and so is
    everything that stands in for more."""
    plain = _PROMPT.sub("", line).replace("…", "x").replace(" ...", "")
    # `tombstones(1)` or `[--json]`: brackets of usage lines, not those inside a quoted value.
    plain = re.sub(r"\[(-[^\]]*|[A-Z=]+)\]", r"\1", plain)
    return tuple(shlex.split(plain, comments=True))
