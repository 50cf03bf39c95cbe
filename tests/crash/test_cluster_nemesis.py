"""Three real nodes under faults keep what they promised to clients.

A short schedule; `bench.nemesis` runs long ones.
"""

from pathlib import Path
from typing import Final

import pytest

from bench.nemesis.episode import run_episode
from tests.kit import namespaces
from tests.kit.nodes import LEDGERSTONE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not namespaces.is_permitted(), reason="needs root for namespaces"),
]

SEED: Final = 19


def test_nothing_promised_is_lost(tmp_path: Path) -> None:
    verdict = run_episode(LEDGERSTONE, SEED, tmp_path, kills=3, cuts=2, say=lambda _: None)
    assert verdict.texts == []
    assert verdict.kills >= 3
    assert verdict.cuts >= 2
    assert verdict.counts["records ok"] > 0
    assert verdict.counts["commits ok"] > 0
