"""What a Python worker of Spark does once. Shell.

Workers are reused, and Spark's daemon runs a full garbage collection after each task over all that
was ever imported: 40 ms of every task. Frozen objects are left out of it.
"""

import gc
from functools import cache, lru_cache

from ledgerstone.client.blocking import Client
from ledgerstone.client.session import SessionConfig
from ledgerstone.spark.read_options import Connection


@cache
def settle() -> None:
    """Does something only once per process; call it when everything is imported and was used."""
    gc.collect()
    gc.freeze()


@lru_cache(maxsize=1)
def kept_client(connection: Connection) -> Client:
    """The client of all tasks of this process, which come one after the other.

    To connect and to ask who leads takes longer than to read a small range. A client that was
    closed connects again when it is used."""
    return connect(connection)


def connect(connection: Connection) -> Client:
    config = SessionConfig(client_id=connection.client_id, call_timeout_ms=connection.timeout_ms)
    return Client(connection.bootstrap, config)
