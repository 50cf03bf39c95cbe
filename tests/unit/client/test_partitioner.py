"""Where keys go. The hashes are those of Kafka's own tests of its Java client."""

import pytest

from ledgerstone.client.partitioner import Partitioner, murmur2, partition_of
from ledgerstone.sim.dice import SeededDice


@pytest.mark.parametrize(
    ("key", "hash_"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_the_java_clients(key: bytes, hash_: int) -> None:
    found = murmur2(key)

    assert found == hash_ % 2**32


def test_key_goes_where_the_java_client_sends_it() -> None:
    # Reported by a user whose librdkafka producer sent it to 9.
    assert partition_of(b"TT0124", 15) == 10


def test_negative_hash_loses_its_sign_bit_instead_of_being_negated() -> None:
    assert partition_of(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000


def test_empty_key_is_a_key() -> None:
    partitioner = Partitioner(SeededDice(1))

    assert partitioner.choose("t", b"", 7) == partition_of(b"", 7)


def test_keyless_records_stay_together_until_their_batch_is_closed() -> None:
    partitioner = Partitioner(SeededDice(1))

    first = [partitioner.choose("t", None, 3) for _ in range(5)]
    partitioner.close_batch("t")
    second = [partitioner.choose("t", None, 3) for _ in range(5)]

    assert len(set(first)) == 1
    assert second == [(first[0] + 1) % 3] * 5


def test_keyless_records_come_round_to_every_partition() -> None:
    partitioner = Partitioner(SeededDice(1))
    found = []

    for _ in range(4):
        found.append(partitioner.choose("t", None, 4))
        partitioner.close_batch("t")

    assert sorted(found) == [0, 1, 2, 3]
