"""The fixtures that tables are tested with."""

from tests.kit.mariadb import mariadb, mariadb_server
from tests.kit.postgres import postgres, postgres_server
from tests.kit.table_targets import location

__all__ = ["location", "mariadb", "mariadb_server", "postgres", "postgres_server"]
