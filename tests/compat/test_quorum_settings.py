"""Apache Kafka judges the same settings of roles and quorum as we do."""

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.kit.cluster_settings import REFUSED, SOUND

pytestmark = pytest.mark.kafka


def _verdicts(tmp_path: Path, settings: Sequence[Mapping[str, str]]) -> list[str]:
    from golden.kafka_tools import fetch_jars

    files = []
    for number, each in enumerate(settings):
        files.append(tmp_path / f"{number}.properties")
        lines = [f"{key}={value}\n" for key, value in each.items()]
        files[-1].write_text("".join(lines), encoding="utf-8")
    # What Kafka logs goes to the same output, and does not begin like a verdict.
    command = fetch_jars().java("ConfigVerdict", *map(str, files))
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    return [line for line in lines if line.startswith(("accepted", "refused "))]


def test_kafka_accepts_what_we_accept(tmp_path: Path) -> None:
    said = _verdicts(tmp_path, list(SOUND.values()))

    assert dict(zip(SOUND, said, strict=True)) == dict.fromkeys(SOUND, "accepted")


def test_kafka_refuses_what_we_refuse(tmp_path: Path) -> None:
    said = _verdicts(tmp_path, [each.settings for each in REFUSED.values()])

    wrong = {}
    for name, verdict in zip(REFUSED, said, strict=True):
        expected = REFUSED[name].kafka
        is_right = verdict == "accepted" if expected is None else expected in verdict
        if not is_right:
            wrong[name] = verdict
    assert wrong == {}
