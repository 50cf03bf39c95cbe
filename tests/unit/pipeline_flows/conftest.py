"""The fixtures of tests that need a real PostgreSQL."""

from tests.kit.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]
