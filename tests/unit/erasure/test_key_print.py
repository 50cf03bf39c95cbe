"""A key's fingerprints: what each is, that they are keyed, and that they survive JSON."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.erasure.key_print import KeyPrint, PrintKey, hmac_of, rolling_of
from tests.kit.sized import examples
from tests.oracles.plain_siphash import siphash128

SALT = bytes(range(32))
PRINT_KEY = PrintKey.from_salt(SALT)


def plain_rolling(data: bytes, base: int) -> int:
    value = 0
    for byte in data:
        value = (value * base + byte + 1) % 2**64
    return value


def hkdf(info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info).derive(SALT)


def test_everything_is_derived_from_the_salt_by_hkdf() -> None:
    derived = PrintKey.from_salt(SALT)

    assert derived.hmac_key == SALT
    assert derived.sip_seed == hkdf(b"ledgerstone sip", 16)
    base = int.from_bytes(hkdf(b"ledgerstone rolling", 8), "little")
    assert derived.rolling_base == base | 1
    assert derived.seal_key == hkdf(b"ledgerstone seal", 32)


def test_print_key_shows_none_of_its_secrets() -> None:
    shown = repr(PRINT_KEY)

    assert shown == "PrintKey()"


@pytest.mark.parametrize("size", [0, 31, 33])
def test_salt_of_another_size_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=f"32 bytes, not {size}"):
        PrintKey.from_salt(bytes(size))


def test_hmac_is_that_of_topic_zero_byte_and_key() -> None:
    made = PRINT_KEY.print_of("customers", b"alice")

    assert made.hmac == hmac.new(SALT, b"customers\0alice", hashlib.sha256).digest()
    assert made.hmac == hmac_of(SALT, "customers", b"alice")


@examples(100)
@given(key=st.binary(max_size=300))
def test_print_has_the_words_of_the_plain_twins(key: bytes) -> None:
    made = PRINT_KEY.print_of("t", key)

    assert (made.sip_low, made.sip_high) == siphash128(key, PRINT_KEY.sip_seed)
    assert made.rolling == plain_rolling(key, PRINT_KEY.rolling_base)
    assert made.length == len(key)


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 200_000])
def test_long_keys_roll_across_chunks_like_short_ones(size: int) -> None:
    data = bytes(i * 7 % 251 for i in range(size))

    rolled = rolling_of(data, PRINT_KEY.rolling_base)

    assert rolled == plain_rolling(data, PRINT_KEY.rolling_base)


def test_one_key_has_one_sip_in_every_topic_but_another_hmac() -> None:
    one, other = PRINT_KEY.print_of("a", b"alice"), PRINT_KEY.print_of("b", b"alice")

    assert one[:4] == other[:4]
    assert one.hmac != other.hmac


def test_other_salts_give_prints_that_share_nothing() -> None:
    one = PRINT_KEY.print_of("t", b"alice!")
    other = PrintKey.from_salt(bytes(32)).print_of("t", b"alice!")

    assert not set(one[1:-1]) & set(other[1:-1])


@pytest.mark.parametrize(
    ("key", "telling"),
    [
        (b"alice!", 6),
        ((5).to_bytes(8, "big"), 1),
        ((5).to_bytes(8, "little"), 1),
        ((-1).to_bytes(8, "big", signed=True), 0),
        (bytes(16), 0),
        (b"\x00alice\x00bob\x00", 9),
    ],
)
def test_small_numbers_have_few_telling_bytes(key: bytes, telling: int) -> None:
    assert PRINT_KEY.print_of("t", key).telling == telling


@examples(50)
@given(key=st.binary(max_size=40))
def test_print_comes_back_from_json(key: bytes) -> None:
    made = PRINT_KEY.print_of("t", key)

    assert KeyPrint.from_json(made.to_json()) == made
