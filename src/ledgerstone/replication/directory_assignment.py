"""Which log directory a replica lies in, as its broker tells the controller. Pure."""

from typing import NamedTuple


class DirectoryAssignment(NamedTuple):
    """Where a replica really is."""

    topic_id: bytes
    directory_id: bytes
