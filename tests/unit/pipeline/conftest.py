"""The fixtures that tables are tested with."""

from tests.kit.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]
