"""The file in which a replica remembers how far it lacks tombstones. Pure.

It lies in the partition's directory, so that it goes where the log goes. It is replaced whole
(`checkpoints.write_atomically`), always before the change it describes: after a crash it says too
much rather than too little. Only partitions that are or were replicated and compacted have one.
"""

import re
from typing import Final

from ledgerstone.errors import CorruptFile
from ledgerstone.types import INT64_MAX

_TEXT: Final = re.compile(rb"version: 0\nremoved_to: (0|[1-9][0-9]{0,18})\n")


def encode_marks(removed_to: int) -> bytes:
    return f"version: 0\nremoved_to: {removed_to}\n".encode()


def decode_marks(data: bytes, path: str) -> int:
    match = _TEXT.fullmatch(data)
    if match is None or int(match[1]) > INT64_MAX:
        raise CorruptFile(path, 1, f"{data[:80]!r} is not a version and an offset")
    return int(match[1])
