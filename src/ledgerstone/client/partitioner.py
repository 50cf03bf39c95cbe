"""Which partition a record goes to. Pure.

Keyed records go where the Java client sends them. A tombstone must reach the partition that holds
its key, so this matters for correctness: clients built on librdkafka hash with
CRC-32 by default and send the same key elsewhere. Golden vectors are in the tests.
"""

from typing import Final

from ledgerstone.clock import Dice

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_R: Final = 24
_MASK: Final = 0xFFFFFFFF
_SIGN: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with Kafka's seed, as an unsigned number."""
    length = len(data)
    hash_ = _SEED ^ length
    tail_at = length & ~3
    for position in range(0, tail_at, 4):
        k = int.from_bytes(data[position : position + 4], "little") * _M & _MASK
        k = (k ^ k >> _R) * _M & _MASK
        hash_ = (hash_ * _M & _MASK) ^ k
    if tail_at < length:
        hash_ ^= int.from_bytes(data[tail_at:], "little")
        hash_ = hash_ * _M & _MASK
    hash_ = (hash_ ^ hash_ >> 13) * _M & _MASK
    return hash_ ^ hash_ >> 15


def partition_of(key: bytes, partition_count: int) -> int:
    # The sign bit is cleared, not negated: that is what the Java client calls positive.
    return (murmur2(key) & _SIGN) % partition_count


class Partitioner:
    """Keyed records go by their hash; the others stay together until their batch is closed.

    Spreading keyless records one by one would make many small batches of what could be one.
    """

    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._current: dict[str, int] = {}

    def choose(self, topic: str, key: bytes | None, partition_count: int) -> int:
        if key is not None:
            return partition_of(key, partition_count)
        if topic not in self._current:
            # Many short-lived producers would otherwise all start with partition 0.
            self._current[topic] = self._dice.below(partition_count)
        return self._current[topic] % partition_count

    def close_batch(self, topic: str) -> None:
        """Keyless records of this topic continue with the next partition."""
        if topic in self._current:
            self._current[topic] += 1
