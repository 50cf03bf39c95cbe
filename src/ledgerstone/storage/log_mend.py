"""Mends a log when a read goes wrong: find the fault, log it, read on. Grade D.

A wrong index is rebuilt from the log file, with one log line. Damage in the log file itself is
noted: the log takes no more writes, and the data on either side of the damage is still served.
"""

import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ledgerstone.errors import CorruptFile, Damage
from ledgerstone.storage.filenames import Kind, parse_file_name
from ledgerstone.storage.log import PartitionLog

_LOG: Final = logging.getLogger(__name__)
# Each segment that a search visits may have a wrong index.
_ATTEMPTS: Final = 8

T = TypeVar("T")


def mending(log: PartitionLog, act: Callable[[], T]) -> T:
    """`act` reads the log; it is retried after each repair."""
    for _ in range(_ATTEMPTS):
        try:
            return act()
        except CorruptFile as error:
            mend(log, error)
    return act()


def mend(log: PartitionLog, error: CorruptFile) -> None:
    """Re-raises the error if nothing can be done about it."""
    parsed = parse_file_name(error.path.rpartition("/")[2])
    segment = None if parsed is None else log.segments.at_base(parsed.offset)
    if segment is None or segment.holes:
        raise error
    holes = segment.mend()
    path = segment.path(Kind.LOG)
    if not holes:
        _LOG.warning("indexes rebuilt partition=%s reason=%s", log.topic_partition, error)
        return
    log.damaged(
        [Damage(path, start, end - start, f"damaged: {error.reason}") for start, end in holes]
    )
