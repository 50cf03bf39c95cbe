"""Cipher suites: IANA's names, which Kafka uses, as OpenSSL's. Pure."""

import re
from typing import Final

TLS13_SUITES: Final = (
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
)
_IANA: Final = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_"
    r"(?:AES_(128|256)_(GCM|CBC|CCM|CCM_8)|(CHACHA20_POLY1305))(?:_(SHA(?:256|384)?))?"
)
_OPENSSL: Final = re.compile(r"[A-Z0-9]+(?:-[A-Z0-9]+)+")


def openssl_name(suite: str) -> str | None:
    """The name of a suite of TLS 1.2; None: not known. OpenSSL's own names stay."""
    found = _IANA.fullmatch(suite)
    if found is None:
        return suite if _OPENSSL.fullmatch(suite) else None
    exchange, signature, bits, mode, chacha, digest = found.groups()
    start = f"{exchange}-{signature}-" if exchange else ""
    if chacha:
        return f"{start}CHACHA20-POLY1305"
    if mode.startswith("CCM"):
        return f"{start}AES{bits}-{mode.replace('_', '')}"
    middle = "GCM-" if mode == "GCM" else ""
    return f"{start}AES{bits}-{middle}{digest}"
