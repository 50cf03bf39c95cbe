"""A page of Markdown: blocks, tables, code. Shell; for the tools that write reference pages."""

import re
from collections.abc import Iterable
from typing import Final

NOTE: Final = "<!-- Made by tools/reference.py; changes here are lost. -->"


def page(title: str, *blocks: str) -> str:
    return "\n\n".join([f"# {title}", NOTE, *blocks]) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    names = list(head)
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def code(text: str) -> str:
    return f"`{text}`" if text else ""
