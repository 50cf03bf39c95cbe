"""Writes docs/reference/ from the declarations, so that it cannot go stale. Shell.

    python tools/reference.py [--check] [--metrics]

The command line comes from the commands themselves, settings from their declarations, the HTTP API
from the routes in the code and the docstrings beside them. `--check` writes nothing and fails where
a page differs. Metrics have no declaration: with `--metrics` a broker is started and asked, and
tests/docs compares that page.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from ledgerstone.cli.main import app
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.group import GROUP_KEYS
from ledgerstone.config.setting import Value, format_value
from ledgerstone.config.topic import TOPIC_KEYS
from markdown_page import code, page, table
from reference_http import http_page

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "reference"
# No machine's own limits or numbers belong on a page that everybody reads.
LARGEST: Final = {2**31 - 1: "2^31-1", 2**63 - 1: "2^63-1", 1.7976931348623157e308: "no limit"}


# -- the command line -----------------------------------------------------------------------------


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that can be run, with its words; groups first, then what is in them."""
    root = typer.main.get_command(app)
    yield from _below(("ledgerstone",), root)


def _below(words: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:  # noqa: ANN401 - click's types are typer's own
    yield words, command
    for name, stand_in in getattr(command, "commands", {}).items():
        # What is in a module is known only once it is loaded, which making a context does.
        loaded = stand_in.make_context(name, [], resilient_parsing=True).command
        yield from _below((*words, name), loaded)


def cli_page() -> str:
    blocks = [
        "Exit codes: 0 done, 1 refused or failed, 2 wrong usage. Where a command has more, the "
        "page about it says which."
    ]
    for words, command in commands():
        if len(words) == 1:
            continue
        blocks.append(f"{'##' if len(words) == 2 else '###'} {' '.join(words[1:])}")
        blocks.append(" ".join((command.help or "").split()))
        rows = [_parameter(each) for each in command.params if _is_shown(each)]
        # A group with options of its own does something without a further word.
        if rows or not hasattr(command, "commands"):
            blocks.append(f"```\n{_usage(words, command)}\n```")
        if rows:
            blocks.append(table(("", "default", ""), rows))
    return page("Command line", *filter(None, blocks))


def _is_argument(parameter: Any) -> bool:  # noqa: ANN401
    return not parameter.opts[0].startswith("-")


def _is_shown(parameter: Any) -> bool:  # noqa: ANN401
    return not getattr(parameter, "hidden", False) and bool(
        getattr(parameter, "help", None) or not _is_argument(parameter)
    )


def _usage(words: tuple[str, ...], command: Any) -> str:  # noqa: ANN401
    arguments = [_metavar(each) for each in command.params if _is_argument(each)]
    needed = [
        f"{each.opts[0]} {_metavar(each)}"
        for each in command.params
        if not _is_argument(each) and each.required
    ]
    return " ".join([*words, *arguments, *needed, "[OPTIONS]"])


def _metavar(parameter: Any) -> str:  # noqa: ANN401
    if parameter.metavar:
        return str(parameter.metavar)
    if getattr(parameter, "is_flag", False):
        return ""
    choices = getattr(parameter.type, "choices", None)
    if choices:
        return "|".join(str(getattr(each, "value", each)) for each in choices)
    return str(parameter.type.name).split(" ")[0].upper()


def _parameter(parameter: Any) -> tuple[str, str, str]:  # noqa: ANN401
    words = _metavar(parameter)
    if not _is_argument(parameter):
        words = ", ".join([*parameter.opts, *parameter.secondary_opts]) + (
            f" {words}" * bool(words)
        )
    text = getattr(parameter, "help", None) or ""
    if getattr(parameter, "envvar", None):
        text += f" Also from the environment: `{parameter.envvar}`."
    return code(words), _default(parameter), text


def _default(parameter: Any) -> str:  # noqa: ANN401
    if parameter.required:
        return "needed" if not _is_argument(parameter) else ""
    value = getattr(parameter.default, "value", parameter.default)
    is_empty = value is None or value is False or value == [] or value == ""
    return "" if is_empty or callable(value) else code(str(value))


# -- settings -------------------------------------------------------------------------------------


def configs_page() -> str:
    broker = [
        (code(key.name), _kind(key), _value(key.default), key.update.value, _allowed(key), key.doc)
        for key in BROKER_KEYS.values()
        if not key.doc.startswith("Default of the topic key ")
    ]
    topic = [
        (
            code(key.name),
            _kind(key),
            _value(key.default),
            _allowed(key),
            ", ".join(code(each.name) for each in key.synonyms),
            key.doc,
        )
        for key in TOPIC_KEYS.values()
    ]
    group = [
        (code(key.name), _kind(key), _value(key.default), _allowed(key), key.doc)
        for key in GROUP_KEYS.values()
    ]
    return page(
        "Settings",
        "Names, types and defaults are Kafka's, except for those that begin with `ledgerstone.`. "
        "A broker takes them from `-c key=value`, then from the environment (`KAFKA_LOG_DIRS` is "
        "`log.dirs`), then from the file of `--config`. An unknown key is a warning; an "
        "invalid value ends the start.",
        "## Topics",
        "`ledgerstone topics create TOPIC -c key=value`, later `ledgerstone configs set`. The "
        "broker keys in the fifth column give the default for topics that say nothing.",
        table(("key", "type", "default", "allowed", "broker key", ""), topic),
        "## Brokers",
        "*read-only* keys need a restart; the others can be changed while the broker runs.",
        table(("key", "type", "default", "change", "allowed", ""), broker),
        "## Groups",
        "Set by IncrementalAlterConfigs (`kafka-configs --entity-type groups`), for groups "
        "of the types consumer, share and streams. These are not served yet: a setting is checked, "
        "kept and shown, and nothing obeys it.",
        table(("key", "type", "default", "allowed", ""), group),
    )


def _kind(key: Any) -> str:  # noqa: ANN401
    return str(key.kind.name).lower()


def _value(value: Value | None) -> str:
    if value is None or value == () or value == "":
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool) and value in LARGEST:
        return LARGEST[value]
    return code(format_value(value))


def _allowed(key: Any) -> str:  # noqa: ANN401
    if key.one_of:
        return ", ".join(map(code, key.one_of))
    low, high = key.at_least, key.at_most
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is not None:
        return f"at least {low}"
    return f"at most {high}" if high is not None else ""


# -- metrics --------------------------------------------------------------------------------------


def metrics_page() -> str:
    from metrics_tour import metrics_page as tour

    return page(
        "Metrics",
        "`GET /metrics`, Prometheus text format. Names that begin with `kafka_` are those the JMX "
        "exporter gives Apache Kafka's beans, so existing dashboards work; what Kafka has no name "
        "for begins with `ledgerstone_`. Metrics of groups, passes, holds and erasures appear once "
        "there is one.",
        table(("metric", "type", "labels", ""), _metric_rows(tour())),
    )


def _metric_rows(text: str) -> Iterator[tuple[str, str, str, str]]:
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    kinds = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.MULTILINE))
    for name in sorted(helps, key=lambda each: (each.startswith("kafka_"), each)):
        sample = re.search(rf"^{name}(?:\{{(.*)\}})? ", text, re.MULTILINE)
        labels = re.findall(r'(\w+)="', (sample[1] or "") if sample else "")
        yield code(name), kinds[name], ", ".join(labels), helps[name]


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "cli.md": cli_page,
    "configs.md": configs_page,
    "http.md": http_page,
}
METRICS: Final[Mapping[str, Callable[[], str]]] = {"metrics.md": metrics_page}


def main(arguments: list[str]) -> int:
    unknown = set(arguments) - {"--check", "--metrics"}
    if unknown:
        print(f"no such option: {sorted(unknown)}")
        return 2
    pages = {
        name: make()
        for name, make in {**PAGES, **(METRICS if "--metrics" in arguments else {})}.items()
    }
    if "--check" in arguments:
        stale = [name for name, text in pages.items() if _present(name) != text]
        for name in stale:
            print(f"docs/reference/{name} differs from the declarations: python tools/reference.py")
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, text in pages.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    return 0


def _present(name: str) -> str | None:
    path = TARGET / name
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
