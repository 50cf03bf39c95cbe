"""The fixtures that tables are tested with."""

from pathlib import Path

import pytest

from tests.kit.mariadb import mariadb, mariadb_server
from tests.kit.postgres import postgres, postgres_server
from tests.kit.table_targets import location

__all__ = ["location", "mariadb", "mariadb_server", "postgres", "postgres_server"]


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline's work directory is relative by default, and a run removes what it finds in it:
    tests that run side by side must not share one."""
    monkeypatch.chdir(tmp_path)
