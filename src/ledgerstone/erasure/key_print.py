"""A key known only by keyed fingerprints: found again without being stored. Grade P.

Owns how everything secret is derived from the operator's salt, and what is kept of a key once its
tombstone is written. Contract: the section "Fingerprints" of README.md. Nobody without the salt
can tell from a print whether it is that of a guessed key.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.records import kernels

SALT_BYTES: Final = 32
# Shorter keys occur in any file by chance: they are looked for as keys of records, not as bytes.
# So do numbers that fill eight bytes with zeros: offsets and sizes look the same.
MIN_RAW_BYTES: Final = 5
_FILLING: Final = b"\x00\xff"

_MASK: Final = (1 << 64) - 1
_SIP_INFO: Final = b"ledgerstone sip"
_ROLLING_INFO: Final = b"ledgerstone rolling"
_SEAL_INFO: Final = b"ledgerstone seal"
_JOURNAL_INFO: Final = b"ledgerstone journal"
# Bounds the memory that a long key takes while its bytes are weighed.
_CHUNK_BYTES: Final = 1 << 16


class KeyPrint(NamedTuple):
    """All that is kept of an erased key."""

    length: int
    rolling: int
    sip_low: int
    sip_high: int
    hmac: bytes
    telling: int  # of its bytes, without those that fill both ends, all zeros or all ones

    def to_json(self) -> dict[str, Any]:
        """JSON's numbers end at 2^53 in many readers, so the words are hexadecimal."""
        return {
            "length": self.length,
            "telling": self.telling,
            "rolling": f"{self.rolling:016x}",
            "sip": f"{self.sip_high:016x}{self.sip_low:016x}",
            "hmac_sha256": self.hmac.hex(),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "KeyPrint":
        """ValueError, KeyError or TypeError where it is not what `to_json` makes."""
        sip = int(content["sip"], 16)
        return cls(
            int(content["length"]),
            int(content["rolling"], 16) & _MASK,
            sip & _MASK,
            sip >> 64 & _MASK,
            bytes.fromhex(content["hmac_sha256"]),
            int(content["telling"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintKey:
    """What the salt becomes. All of it is secret, so none of it shows in a repr."""

    hmac_key: bytes = field(repr=False)
    sip_seed: bytes = field(repr=False)  # 16 bytes, the seed of `kernels.hash_keys`
    rolling_base: int = field(repr=False)  # odd, 64 bits
    seal_key: bytes = field(repr=False)  # 32 bytes, seals keys that are not erased yet

    @classmethod
    def from_salt(cls, salt: bytes) -> "PrintKey":
        if len(salt) != SALT_BYTES:
            raise ValueError(f"a salt has {SALT_BYTES} bytes, not {len(salt)}")
        return cls(
            hmac_key=salt,
            sip_seed=_derived(salt, _SIP_INFO)[:16],
            # An even base would forget the first bytes of any key longer than 63.
            rolling_base=int.from_bytes(_derived(salt, _ROLLING_INFO)[:8], "little") | 1,
            seal_key=_derived(salt, _SEAL_INFO),
        )

    def print_of(self, topic: str, key: bytes) -> KeyPrint:
        sip_low, sip_high = sip_of(key, self.sip_seed)
        return KeyPrint(
            len(key),
            rolling_of(key, self.rolling_base),
            sip_low,
            sip_high,
            hmac_of(self.hmac_key, topic, key),
            len(key.strip(_FILLING)),
        )


def journal_key_of(salt: bytes) -> bytes:
    """What links the records of the journal; see `journal_chain`."""
    return _derived(salt, _JOURNAL_INFO)


def hmac_of(salt: bytes, topic: str, key: bytes) -> bytes:
    """What receipts show. Names of topics have no zero byte, so no two pairs are the same bytes."""
    return hmac.digest(salt, topic.encode() + b"\0" + key, "sha256")


def sip_of(key: bytes, seed: bytes) -> tuple[int, int]:
    """SipHash-2-4-128 as (low word, high word), the way `hash_keys` tells it of records' keys."""
    # A broker that erases nothing does without numpy.
    import numpy as np

    low, high = kernels.hash_keys(key, np.zeros(1, np.int64), np.array([len(key)], np.int32), seed)
    return int(low[0]), int(high[0])


def rolling_of(data: bytes, base: int) -> int:
    """h = h * base + (byte + 1) mod 2^64, from left to right, starting at 0."""
    import numpy as np

    powers = np.full(min(len(data), _CHUNK_BYTES) + 1, base, np.uint64)
    powers[0] = 1
    powers = np.multiply.accumulate(powers)
    value = 0
    for start in range(0, len(data), _CHUNK_BYTES):
        weights = np.frombuffer(data[start : start + _CHUNK_BYTES], np.uint8).astype(np.uint64) + 1
        size = len(weights)
        share = int(np.sum(weights * powers[:size][::-1], dtype=np.uint64))
        value = (value * int(powers[size]) + share) & _MASK
    return value


def _derived(salt: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 (RFC 5869) without a salt of its own; one block of 32 bytes."""
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), salt, "sha256")
    return hmac.digest(extracted, info + b"\1", "sha256")
