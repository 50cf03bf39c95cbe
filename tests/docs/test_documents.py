"""The commands and links in the documents exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from ledgerstone.cli.main import app
from tests.docs.documents import ROOT, CommandLine, command_lines, documents, package_documents

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def complaint(line: CommandLine) -> str | None:
    """The parser's error for the line; None if it would run."""
    root: Any = typer.main.get_command(app)
    command, words, path = root, list(line.words), ["ledgerstone"]
    try:
        while hasattr(command, "commands"):
            context = command.make_context(path[-1], list(words), resilient_parsing=True)
            rest = [*getattr(context, "_protected_args", []), *context.args]
            if not rest:
                return None
            name, found, words = command.resolve_command(context, rest)
            if found is None:
                return f"No such command: {rest[0]}"
            path.append(name)
            # A lazily loaded command knows its options only after loading.
            command = found.make_context(name, [], resilient_parsing=True).command
        command.make_context(path[-1], words)
    except (SystemExit, typer.Exit):
        return None
    except Exception as error:  # noqa: BLE001 - click's errors are those of typer's own click
        return _weighed(error, is_whole=line.is_whole)
    return None


def _weighed(error: Exception, *, is_whole: bool) -> str | None:
    text = str(getattr(error, "message", None) or error)
    kind = type(error).__name__
    if "does not exist" in text or "unexpected extra argument" in text:
        # The file is the user's own, or an explanation follows the command.
        return None
    if kind == "MissingParameter" and not is_whole:
        return None
    return f"{kind}: {text}"


def anchors(path: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    plain = [re.sub(r"[^\w\- ]", "", each.replace("`", "")) for each in HEADING.findall(text)]
    return [each.strip().lower().replace(" ", "-") for each in plain]


@pytest.mark.parametrize("path", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_command_lines_of_a_document_are_taken_by_the_program(path: Path) -> None:
    lines = list(command_lines(path.read_text(encoding="utf-8")))

    complaints = {" ".join(each.words): complaint(each) for each in lines}

    assert {line: text for line, text in complaints.items() if text is not None} == {}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ledgerstone compcat users", "No such command"),
        ("ledgerstone compact users --wiat", "No such option"),
        ("ledgerstone topics create users --partitions three", "not a valid integer"),
        ("ledgerstone why", "Missing"),
    ],
)
def test_a_command_line_that_would_not_run_is_noticed(line: str, expected: str) -> None:
    (found,) = command_lines(f"```\n{line}\n```")

    assert expected in (complaint(found) or "")


@pytest.mark.parametrize(
    "path", [*documents(), *package_documents()], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_of_a_document_lead_to_a_file_and_a_heading_that_exist(path: Path) -> None:
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    links = [link for link in LINK.findall(text) if "://" not in link]

    broken = []
    for link in links:
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)

    assert broken == []
