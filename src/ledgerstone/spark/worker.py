"""One-time work of a Spark Python worker. Shell.

Workers are reused, and Spark's daemon runs a full garbage collection after each task over
everything that was ever imported: 40 ms of every task. The collection skips frozen objects.
"""

import gc
from functools import cache, lru_cache

from ledgerstone.client.blocking import Client
from ledgerstone.client.session import SessionConfig
from ledgerstone.spark.read_options import Connection


@cache
def settle() -> None:
    """Acts only once per process; call it after everything was imported and used."""
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=1)
def kept_client(connection: Connection) -> Client:
    """The client of all tasks of this process, which run one after the other.

    Connecting and looking up leaders takes longer than reading a small range. A closed client
    connects again when it is used."""
    return connect(connection)


def connect(connection: Connection) -> Client:
    config = SessionConfig(
        client_id=connection.client_id,
        call_timeout_ms=connection.timeout_ms,
        security=connection.security,
    )
    return Client(connection.bootstrap, config)
