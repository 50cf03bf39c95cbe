"""Which partition of the offsets topic a group belongs to, and Java's view of a string. Pure.

Both must equal Kafka's: a directory written by one must be understood by the other.
"""

from functools import lru_cache
from typing import Final

_HASH_BITS: Final = 32
_INT32_MIN: Final = -(2**31)


def _utf16_units(text: str) -> memoryview:
    # A lone surrogate is a valid char in Java and must not stop the hash here.
    return memoryview(text.encode("utf-16-le", "surrogatepass"))


def java_length(text: str) -> int:
    """String.length(): UTF-16 units, so that characters outside the first plane count twice."""
    return len(_utf16_units(text)) // 2


def java_hash(text: str) -> int:
    """String.hashCode(), a signed 32-bit number."""
    units = _utf16_units(text)
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] | units[at + 1] << 8)) & 0xFFFFFFFF
    return value - (1 << _HASH_BITS) if value >> (_HASH_BITS - 1) else value


# Requests name the same ids again and again.
_known_hash: Final = lru_cache(maxsize=1024)(java_hash)
# Longer ones are not kept: clients choose them.
_KEPT_LETTERS: Final = 256


def partition_for(group_id: str, partition_count: int) -> int:
    value = _known_hash(group_id) if len(group_id) <= _KEPT_LETTERS else java_hash(group_id)
    # Kafka takes the absolute value, not the low 31 bits: negative hashes land elsewhere otherwise.
    return 0 if value == _INT32_MIN else abs(value) % partition_count
