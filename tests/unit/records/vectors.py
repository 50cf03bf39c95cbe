"""Batches whose bytes are known from an independent program, for every test that needs one."""

from typing import Final

from ledgerstone.records.record import Record

T: Final = 1_700_000_000_000

K1_V1: Final = bytes.fromhex(
    "00000000000000000000003c00000000026ba48e850000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000114000000046b3104763100"
)
TOMBSTONE: Final = bytes.fromhex(
    "00000000000000070000003a0000000302c700b71f0000000000000000018bcfe568000000018bcfe56800"
    "ffffffffffffffffffffffffffff0000000110000000046b310100"
)
# The tombstone after a first cleaning at T + 1000 with delete.retention.ms=86400000.
HORIZON_MS: Final = 1_700_086_401_000
STAMPED_TOMBSTONE: Final = bytes.fromhex(
    "00000000000000070000003d0000000302d585f1060040000000000000018bd50bc7e80000018bcfe56800"
    "ffffffffffffffffffffffffffff000000011600cfffb25200046b310100"
)
# Producer 42, epoch 1, sequences 5 to 7, offsets 10 to 12: all records are gone.
EMPTY: Final = bytes.fromhex(
    "000000000000000a000000310000000302c3e75ece000000000002ffffffffffffffff0000018bcfe56800"
    "000000000000002a00010000000500000000"
)
COMMIT: Final = bytes.fromhex(
    "000000000000000d000000420000000302666330a00030000000000000018bcfe568000000018bcfe56800"
    "000000000000002a0001ffffffff000000012000000008000000010c00000000000900"
)
ABORT: Final = bytes.fromhex(
    "000000000000000e000000420000000302925de6e80030000000000000018bcfe568000000018bcfe56800"
    "000000000000002a0001ffffffff000000012000000008000000000c00000000000900"
)
THREE: Final = bytes.fromhex(
    "000000000000006400000053000000050244aa55750000000000020000018bcfe568000000018bcfe56814"
    "ffffffffffffffffffffffffffff000000031e000000026102310402680278026e01100014020262023200"
    "100028040261023300"
)
# THREE after compaction has dropped offset 100.
THREE_COMPACTED: Final = bytes.fromhex(
    "00000000000000640000004300000005021848523f0000000000020000018bcfe5680a0000018bcfe56814"
    "ffffffffffffffffffffffffffff00000002100000020262023200100014040261023300"
)

THREE_RECORDS: Final = (
    Record(100, T, b"a", b"1", (("h", b"x"), ("n", None))),
    Record(101, T + 10, b"b", b"2", ()),
    Record(102, T + 20, b"a", b"3", ()),
)

ALL: Final = {
    "one record": K1_V1,
    "tombstone": TOMBSTONE,
    "tombstone with a horizon": STAMPED_TOMBSTONE,
    "empty": EMPTY,
    "commit": COMMIT,
    "abort": ABORT,
    "three records": THREE,
    "compacted": THREE_COMPACTED,
}
