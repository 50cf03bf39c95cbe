"""`ledgerstone clock`: shows the broker's time; moves it if the clock is virtual. Shell."""

import re
from typing import Annotated, Any, Final

import typer

from ledgerstone.cli.admin_http import apis_of
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, connect
from ledgerstone.cli.output import flush, show_time, write_json, write_line

app = new_app("Show the broker's clock; advance it under `up --clock virtual`.")

_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str) -> int:
    """`25h`, `1d12h`, `500ms`: milliseconds."""
    parts = re.findall(r"([0-9]{1,12})(ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{text!r} is not a duration such as 25h or 1d12h")
    return sum(int(number) * _MS[unit] for number, unit in parts)


@app.command("show")
def show(as_json: JsonOption = False, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Show each broker's time."""
    with connect(bootstrap) as client:
        _write([api.get("clock") for api in apis_of(client)], as_json=as_json)


@app.command("advance")
def advance(
    duration: Annotated[str, typer.Argument(metavar="DURATION", help="Such as 25h or 1d12h.")],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Advance the clock of every broker; work due by then starts now."""
    ms = parse_duration(duration)
    with connect(bootstrap) as client:
        answers = [api.post("clock/advance", {"ms": ms}) for api in apis_of(client)]
    _write(answers, as_json=as_json)


def _write(clocks: list[dict[str, Any]], *, as_json: bool) -> None:
    for clock in clocks:
        if as_json:
            write_json(clock)
            continue
        kind = f"virtual, {clock['ahead_ms']} ms ahead" if clock["virtual"] else "real"
        write_line(f"{show_time(clock['now_ms'])}  ({kind})")
    flush()
