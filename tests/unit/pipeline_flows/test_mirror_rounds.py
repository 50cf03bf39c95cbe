"""What a round of a mirror does before it connects to anything."""

from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from ledgerstone.pipeline.mirror import rounds
from ledgerstone.pipeline.mirror.rounds import Mirror, mirror_round
from ledgerstone.pipeline.status import is_held


class Begun(Exception):
    """A round has read where it goes on."""


def test_rounds_of_one_mirror_follow_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two at a time would find the same records not copied yet."""
    mirror = Mirror(source="127.0.0.1:1", target="127.0.0.1:1", topics={}, work=str(tmp_path))
    was_alone: list[bool] = []

    def notes(path: Path) -> None:
        was_alone.append(is_held(path.parent))
        raise Begun

    monkeypatch.setattr(rounds, "MirrorNotes", notes)

    for _ in range(2):
        with pytest.raises(Begun):
            mirror_round(cast(SparkSession, None), mirror)

    assert was_alone == [True, True]
    assert not is_held(tmp_path)
