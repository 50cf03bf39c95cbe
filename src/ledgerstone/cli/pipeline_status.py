"""`ledgerstone pipeline status`. Shell; the fields are in docs/pipeline.md."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, printable, show_time, write_json, write_line
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import definitions_in, load_definition

if TYPE_CHECKING:
    from ledgerstone.pipeline.tables.target import Positions


def status(
    definition: Annotated[
        Path, typer.Argument(metavar="DEFINITION", help="A definition, or a directory of them.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Show the last run and the table's lag; of a directory, those of every definition."""
    from ledgerstone.pipeline.status import read_status

    if definition.is_dir():
        _show_all(definition, as_json=as_json)
        return
    pipeline = load_definition(definition)
    facts = read_status(Path(pipeline.work)) or {}
    # The status file is as old as the last batch; the table itself is current.
    positions = _positions(pipeline)
    if positions is not None:
        facts["positions"] = _shown(pipeline, positions)
    if not facts.get("positions") and "state" not in facts:
        write_line(f"{printable(pipeline.name)} has not run yet")
        return
    show_facts({**facts, "lag": _lag(pipeline, facts["positions"])}, as_json=as_json)


def _show_all(directory: Path, *, as_json: bool) -> None:
    from ledgerstone.errors import LedgerstoneError
    from ledgerstone.pipeline.status import read_status

    for path in definitions_in(directory):
        facts: dict[str, Any] = {"definition": Path(path).name, "pipeline": None}
        try:
            pipeline = load_definition(path)
            found = read_status(Path(pipeline.work)) or {"state": "not run yet"}
            positions = _shown(pipeline, _positions(pipeline) or {})
            lag = _lag(pipeline, positions or found.get("positions", {}))
            facts |= {"pipeline": pipeline.name, "topics": list(pipeline.source.names)}
            facts |= {"state": found["state"], "lag": lag, "error": found.get("error")}
        except LedgerstoneError as error:
            facts |= {"topics": [], "state": "invalid", "lag": None, "error": str(error)}
        if as_json:
            write_json(facts)
        else:
            why = "" if facts["error"] is None else f"  {facts['error']}"
            lag_said = "" if facts["lag"] is None else f"{facts['lag']} behind"
            name = facts["pipeline"] or facts["definition"]
            write_line(printable(f"{name:24} {facts['state']:12} {lag_said}{why}"))
    flush()


def _positions(pipeline: Pipeline) -> "dict[str, Positions] | None":
    """By topic."""
    from ledgerstone.errors import LedgerstoneError
    from ledgerstone.pipeline.tables.opening import positions_of

    try:
        return {each.source.topic: positions_of(each) for each in pipeline.each_topic}
    except LedgerstoneError as error:
        said = f"the table cannot be read; positions are those of the last run: {error}"
        sys.stderr.write(f"ledgerstone: {printable(said)}\n")
        return None


def _shown(pipeline: Pipeline, positions: "dict[str, Positions]") -> dict[Any, int]:
    """As the status file has them."""
    if not pipeline.source.topics:
        return dict(positions.get(pipeline.source.topic, {}))
    return {f"{topic}-{n}": at for topic, some in positions.items() for n, at in some.items()}


def _lag(pipeline: Pipeline, positions: dict[Any, Any]) -> int | None:
    """Records the table has yet to apply: from its position, or from the start of the log."""
    from ledgerstone.errors import LedgerstoneError
    from ledgerstone.pipeline.connecting import connect_to, log_ends, log_starts

    try:
        with connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client:
            committed = pipeline.source.isolation == "read_committed"
            topics = pipeline.source.names
            ends = {each: log_ends(client, each, committed=committed) for each in topics}
            starts = {each: log_starts(client, each) for each in topics}
    except LedgerstoneError as error:
        sys.stderr.write(f"ledgerstone: the lag is unknown: {printable(str(error))}\n")
        return None
    at = {str(each): int(offset) for each, offset in positions.items()}
    lag = 0
    for topic in topics:
        for number, end in ends[topic].items():
            place = f"{topic}-{number}" if pipeline.source.topics else str(number)
            lag += max(end - at.get(place, starts[topic][number]), 0)
    return lag


def show_facts(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(status)
    else:
        for name, value in status.items():
            shown = show_time(value) if name.endswith("_ms") else value
            write_line(f"{name.removesuffix('_ms'):16} {printable(str(shown))}")
    flush()
