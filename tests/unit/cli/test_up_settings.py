"""The files and options that `ledgerstone up` takes settings from are looked at before."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ledgerstone.cli import up
from ledgerstone.cli.main import app
from ledgerstone.config.broker import BrokerConfig

KEY = "ssl.keystore.password"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """The settings of brokers that would have been started; no limit of this process changes."""
    found: list[BrokerConfig] = []

    async def serve(config: BrokerConfig, *_: object, **__: object) -> None:
        found.append(config)

    def leave(environment: Mapping[str, str]) -> None:
        assert "PATH" in environment

    monkeypatch.setattr(up, "_serve", serve)
    monkeypatch.setattr(up, "forbid_core_dumps", leave)
    return found


def properties(directory: Path, text: str, mode: int) -> str:
    path = directory / f"{len(list(directory.iterdir()))}.properties"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["up", *words])


def test_file_that_everybody_may_change_ends_the_start(
    started: list[BrokerConfig], tmp_path: Path
) -> None:
    path = properties(tmp_path, "node.id=7\n", 0o666)

    result = run("--config", path)

    assert result.exit_code == 2
    assert "everybody may change it; make it 0600" in result.output
    assert started == []


def test_secret_that_others_can_read_is_remarked_upon_and_not_shown(
    started: list[BrokerConfig], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = properties(tmp_path, f"{KEY}=hunter2\n", 0o644)

    result = run("--config", path)

    assert result.exit_code == 0, result.output
    assert f"holds {KEY} and has mode 0644; make it 0600" in caplog.text
    assert "hunter2" not in caplog.text + result.output
    assert len(started) == 1


@pytest.mark.parametrize(("text", "mode"), [(f"{KEY}=hunter2\n", 0o600), ("node.id=7\n", 0o644)])
def test_file_that_is_private_or_has_no_secret_is_taken_in_silence(
    started: list[BrokerConfig],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    text: str,
    mode: int,
) -> None:
    run("--config", properties(tmp_path, text, mode))

    assert len(started) == 1
    assert "make it 0600" not in caplog.text


def test_secret_on_the_command_line_is_remarked_upon(
    started: list[BrokerConfig], caplog: pytest.LogCaptureFixture
) -> None:
    run("-c", f"{KEY}=hunter2")

    assert f"{KEY}: given with -c, every user of this machine can read it" in caplog.text
    assert "hunter2" not in caplog.text
    assert len(started) == 1


def test_secrets_can_be_in_a_file_of_their_own(started: list[BrokerConfig], tmp_path: Path) -> None:
    public = properties(tmp_path, "node.id=7\nlog.dirs=/a\n", 0o644)
    private = properties(tmp_path, f"{KEY}=hunter2\nlog.dirs=/b\n", 0o600)

    run("--config", public, "--config", private)

    (config,) = started
    assert (config.node_id, config.log_dirs, config.raw[KEY]) == (7, ("/b",), "hunter2")
