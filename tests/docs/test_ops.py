"""The files in ops/ use metrics, options and settings that the broker has."""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ledgerstone.config.broker import exposed_listeners, load_broker_config
from tests.docs.documents import ROOT, CommandLine
from tests.docs.test_documents import complaint

OPS = ROOT / "ops"
# PromQL's own words; `up` is Prometheus' metric for every target.
PROMQL = (
    *("count", "increase", "label_values", "max", "min", "or", "rate", "sum", "time", "up"),
    *("vector", "instance", "topic"),
)
WORD = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
LABELS = re.compile(r"\{[^}]*\}|\bby \([^)]*\)|\[[^\]]*\]")


def metric_names(expression: str) -> set[str]:
    """The metrics in an expression, after labels, ranges and durations are removed."""
    return {word for word in WORD.findall(LABELS.sub(" ", expression)) if word not in PROMQL}


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((OPS / "grafana-dashboard.json").read_text())
    return found


def dashboard_expressions() -> Iterator[str]:
    board = dashboard()
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", []))
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def alert_rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((OPS / "alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def exported_metrics(page: str) -> dict[str, set[str]]:
    """The labels of each metric."""
    found: dict[str, set[str]] = {}
    for name, labels in re.findall(r"^([a-z]\w*)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


UNITS = ("ledgerstone.service", "ledgerstone@.service")


def unit(name: str = UNITS[0]) -> configparser.RawConfigParser:
    # A key may stand there several times; the last one is enough here.
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign] # systemd minds the case
    parser.read(OPS / name)
    return parser


def test_every_metric_of_the_dashboard_is_exported(exported: str) -> None:
    asked = {name for each in dashboard_expressions() for name in metric_names(each)}

    assert sorted(asked - set(exported_metrics(exported))) == []
    assert len(asked) > 30


def test_every_metric_of_the_alert_rules_is_exported(exported: str) -> None:
    asked = {name for rule in alert_rules() for name in metric_names(rule["expr"])}

    assert sorted(asked - set(exported_metrics(exported))) == []
    assert len(asked) > 10


def test_labels_that_alerts_and_panels_group_by_or_show_are_exported(exported: str) -> None:
    metrics = exported_metrics(exported)
    by_target = {"instance", "job"}  # set by Prometheus

    wrong = []
    for rule in alert_rules():
        shown = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) - by_target
        wrong += [rule["alert"] for name in metric_names(rule["expr"]) if shown - metrics[name]]
    for expression in dashboard_expressions():
        wanted = set(re.findall(r"(\w+)=~", expression)) - by_target
        for group in re.findall(r"\bby \(([^)]*)\)", expression):
            wanted |= {each.strip() for each in group.split(",")} - by_target
        names = metric_names(expression)
        wrong += [expression for name in names if wanted - metrics[name]]

    assert wrong == []


@pytest.mark.parametrize("rule", alert_rules(), ids=lambda rule: rule["alert"])
def test_alert_rule_says_how_urgent_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("page", "ticket")
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["action"].endswith((".", "?"))


def test_commands_that_alerts_name_are_taken_by_the_program() -> None:
    actions = " ".join(rule["annotations"]["action"] for rule in alert_rules())
    lines = re.findall(r"`ledgerstone ([^`]+)`", actions)

    complaints = [complaint(CommandLine(tuple(shlex.split(each)), False)) for each in lines]

    assert len(lines) > 5
    assert [each for each in complaints if each is not None] == []


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = dashboard()["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


@pytest.mark.parametrize("name", UNITS)
def test_command_of_the_unit_is_taken_by_the_program(name: str) -> None:
    program, *words = shlex.split(unit(name)["Service"]["ExecStart"])

    assert Path(program).name == "ledgerstone"
    assert complaint(CommandLine(tuple(words), is_whole=True)) is None


def test_template_is_the_unit_with_a_directory_and_settings_for_each_node() -> None:
    one, each = (dict(unit(name)["Service"]) for name in UNITS)

    assert {key for key in each if each[key] != one[key]} == {
        "ExecStart",
        "StateDirectory",
        "WorkingDirectory",
    }
    assert each.keys() == one.keys()
    assert each["StateDirectory"] == "ledgerstone/%i"


@pytest.mark.parametrize("name", UNITS)
def test_unit_claims_no_notify_protocol_and_keeps_images_and_files_to_itself(name: str) -> None:
    service = unit(name)["Service"]

    assert service["Type"] == "exec"
    assert service["KillSignal"] == "SIGTERM"
    assert service["LimitCORE"] == "0"
    assert service["UMask"] == "0077"
    assert (service["StateDirectoryMode"], service["CacheDirectoryMode"]) == ("0700", "0700")


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd: apt-get install systemd"
)


def test_secrets_come_in_a_file_of_their_own_which_the_program_takes() -> None:
    lines = (OPS / "secrets.conf").read_text().splitlines()
    # The first one empties the list; systemd would start both otherwise.
    reset, whole = (line.removeprefix("ExecStart=") for line in lines if "ExecStart=" in line)
    (credential,) = [line.partition("=")[2] for line in lines if line.startswith("LoadCredential=")]
    own = unit()["Service"]["ExecStart"]

    assert reset == ""
    assert whole.replace(f" --config %d/{credential.partition(':')[0]}", "") == own
    assert complaint(CommandLine(tuple(shlex.split(whole)[1:]), is_whole=True)) is None


@needs_systemd
def test_systemd_would_say_what_it_does_not_know(tmp_path: Path) -> None:
    copy = tmp_path / UNITS[0]
    copy.write_text(f"[Service]\nExecStart={sys.executable}\nProtectEverything=yes\n")

    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "ProtectEverything" in done.stderr


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_finds_little_that_the_unit_leaves_open(name: str) -> None:
    # 1.2 with systemd 252. What is left: the network, which a broker is for; devices of the clock;
    # @resources; /proc/sys.
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=15", "--no-pager"]

    done = subprocess.run([*command, OPS / name], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


@needs_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_knows_every_word_of_the_unit(name: str, tmp_path: Path) -> None:
    # It also looks whether the program is there, and for the user's name.
    program = shlex.split(unit(name)["Service"]["ExecStart"])[0]
    text = (OPS / name).read_text().replace(program, sys.executable)
    copy = tmp_path / name.replace("@", "@1")
    copy.write_text(text)

    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    said = [line for line in done.stderr.splitlines() if name.partition("@")[0] in line]
    assert said == []
    assert done.returncode == 0, done.stderr


def test_settings_of_the_unit_are_known_and_lie_in_its_directories() -> None:
    loaded = load_broker_config(properties=(OPS / "server.properties").read_bytes())

    assert [each for each in loaded.warnings if "unknown key" in each] == []
    assert loaded.config.log_dirs == ("/var/lib/ledgerstone/data",)
    assert unit()["Service"]["StateDirectory"] == "ledgerstone"


def test_settings_of_the_image_are_known_and_kept_inside_it() -> None:
    lines = (OPS / "Dockerfile").read_text().splitlines()
    settings = " ".join(line for line in lines if not line.startswith("#"))
    environment = dict(re.findall(r"\b((?:KAFKA|LEDGERSTONE)_\w+)=(\S+)", settings))

    loaded = load_broker_config(environment=environment)

    # Inside a container every address is that of its network.
    assert list(loaded.warnings) == list(exposed_listeners(loaded.config))
    assert str(loaded.config.ledgerstone_http_listener) == "HTTP://127.0.0.1:9093"
    assert [str(each) for each in loaded.config.listeners] == ["PLAINTEXT://0.0.0.0:9092"]


def test_image_runs_as_a_user_and_is_made_of_what_the_builder_is_sent() -> None:
    lines = (OPS / "Dockerfile").read_text().splitlines()
    sent = [
        line.removeprefix("!")
        for line in (OPS / "Dockerfile.dockerignore").read_text().splitlines()
        if line.startswith("!")
    ]
    copied = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]

    users = [line.split()[1] for line in lines if line.startswith("USER ")]

    # By number, so that an orchestrator can see that it is not root.
    assert users == ["10001:10001"]
    assert sorted(copied) == sorted(sent)
    assert [name for name in copied if not (ROOT / name).exists()] == []
    # The build backend refuses to build a wheel without its hook.
    assert "hatch_build.py" in copied
