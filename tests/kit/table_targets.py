"""The targets that every test of tables runs on, and where each of them puts its table."""

from pathlib import Path
from typing import Any

import pytest

# Of `sql` one for each of its ways to upsert; MariaDB only where the machine has it.
TARGETS = (
    "sqlite",
    "parquet",
    "delta",
    "postgres",
    "duckdb",
    "iceberg",
    "sql-sqlite",
    pytest.param("sql-postgres", marks=pytest.mark.slow),
    pytest.param("sql-mariadb", marks=pytest.mark.slow),
)


@pytest.fixture
def location(request: pytest.FixtureRequest, tmp_path: Path, target: str) -> str:
    return place_of(target, request, tmp_path)


def place_of(target: str, request: pytest.FixtureRequest, directory: Path) -> str:
    match target:
        case "postgres":
            return str(request.getfixturevalue("postgres"))
        case "sql-postgres":
            url: str = request.getfixturevalue("postgres")
            return url.replace("postgresql://", "postgresql+psycopg://")
        case "sql-mariadb":
            return str(request.getfixturevalue("mariadb"))
        case "sql-sqlite":
            return f"sqlite:///{directory / 'table'}"
    return str(directory / "table")


def table_at(target: str, location: str, **table: Any) -> dict[str, Any]:
    """The section of a definition."""
    kind = "sql" if target.startswith("sql-") else target
    where = "connection" if kind in ("postgres", "sql") else "path"
    return {"type": kind, where: location, **table}
