"""The name in a certificate, as Java writes it. Pure.

ACLs name principals by this text, so it has to be the one that Kafka uses: RFC 2253 by
`X500Principal.getName()`. The last part comes first. Attributes without a keyword there are given
by their number, with the value in hexadecimal DER.
"""

from collections.abc import Iterator
from typing import Final

MAX_NAME_BYTES: Final = 4096
_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
# UTF-8, printable, T.61, IA5, general and BMP strings. Java takes the bytes of each of them for
# UTF-8; a value of any other kind is given in hexadecimal.
_TEXTS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E)
# Java escapes = and # wherever they stand.
_ESCAPED: Final = ',=+<>#;"\\'


class BrokenName(ValueError):
    """The bytes are no distinguished name."""


def rfc2253(name: bytes) -> str:
    """Of a name in DER, such as the subject of a certificate."""
    if len(name) > MAX_NAME_BYTES:
        raise BrokenName(f"a name of {len(name)} bytes, more than {MAX_NAME_BYTES}")
    parts = []
    for part in _members(_only(name, _SEQUENCE)):
        kind, content, _ = part
        if kind != _SET:
            raise BrokenName("a part of the name is no set")
        parts.append("+".join(_attribute(*each) for each in _members(content)))
    return ",".join(reversed(parts))


def subject_of(certificate: bytes) -> bytes:
    """The name of who a certificate is for, in DER, as the certificate is."""
    outer = list(_members(_only(certificate, _SEQUENCE)))
    if not outer or outer[0][0] != _SEQUENCE:
        raise BrokenName("the certificate has no content")
    fields = [each for each in _members(outer[0][1]) if each[0] != _VERSION]
    # Serial number, algorithm, issuer, validity, subject.
    if len(fields) < 5:
        raise BrokenName("the certificate has no subject")
    return fields[4][2]


def _attribute(kind: int, content: bytes, _: bytes) -> str:
    if kind != _SEQUENCE:
        raise BrokenName("an attribute is no sequence")
    members = list(_members(content))
    if len(members) != 2 or members[0][0] != _OID:
        raise BrokenName("an attribute is not a number and a value")
    number = _number(members[0][1])
    kind, value, whole = members[1]
    keyword = _KEYWORDS.get(number)
    if keyword is None or kind not in _TEXTS:
        return f"{keyword or number}=#{whole.hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    shown = []
    first = len(text) - len(text.lstrip(" \r"))
    end = len(text.rstrip(" \r"))
    for index, character in enumerate(text):
        if character in _ESCAPED or index < first or index >= end:
            shown.append("\\")
        shown.append("\\00" if character == "\0" else character)
    return "".join(shown)


def _only(data: bytes, kind: int) -> bytes:
    members = list(_members(data))
    if len(members) != 1 or members[0][0] != kind:
        raise BrokenName("the name is no sequence")
    return members[0][1]


def _members(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Kind, content and all of it, for each value that stands here."""
    begin = 0
    while begin < len(data):
        if begin + 2 > len(data):
            raise BrokenName("a value ends in its head")
        kind, size, at = data[begin], data[begin + 1], begin + 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4 or at + count > len(data):
                raise BrokenName("a value has no length that can be")
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        if size > len(data) - at:
            raise BrokenName("a value is longer than what holds it")
        yield kind, data[at : at + size], data[begin : at + size]
        begin = at + size


def _number(content: bytes) -> str:
    """Of an object identifier."""
    values, value = [], 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            values.append(value)
            value = 0
    if not values or content[-1] & 0x80:
        raise BrokenName("an object identifier is cut off")
    first = min(values[0] // 40, 2)
    return ".".join(map(str, (first, values[0] - first * 40, *values[1:])))
