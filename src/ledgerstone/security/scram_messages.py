"""The four texts of SCRAM, RFC 5802 section 7: read strictly, and written. Pure.

What was received is kept as it came: both sides sign the bytes, not what they understood.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

from ledgerstone.security.exchange import LoginRefused

# As in Kafka: names are US-ASCII without the comma and the equals sign, which are escaped.
_SASLNAME: Final = re.compile(r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+")
_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_EXTENSION: Final = re.compile(r"([A-Za-z]+)=([^,\x00]+)")
MAX_MESSAGE_BYTES: Final = 16 << 10
MAX_EXTENSIONS: Final = 16
# `n,,` in base64: there is no channel binding.
_NO_BINDING: Final = "biws"


class ClientFirst(NamedTuple):
    name: str
    authorization_id: str
    nonce: str
    extensions: dict[str, str]
    header: str  # of GS2: what the client says of channel binding
    bare: str


class ServerFirst(NamedTuple):
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    nonce: str
    proof: bytes
    without_proof: str
    binding: str


def escape(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def unescape(saslname: str) -> str:
    return saslname.replace("=2C", ",").replace("=3D", "=")


def read_client_first(data: bytes) -> ClientFirst:
    text = _text(data)
    header, bare = _gs2_header(text)
    name_part, _, rest = bare.partition(",")
    nonce_part, *extensions = rest.split(",")
    if not name_part.startswith("n="):
        # Also `m=`, a mandatory extension: nobody knows one.
        raise LoginRefused("client-first-message: no name where one must be")
    nonce = _after("r=", nonce_part, "client-first-message")
    if not _NONCE.fullmatch(nonce):
        raise LoginRefused("client-first-message: the nonce has characters that none may have")
    authorization_id = header.split(",")[1].removeprefix("a=")
    return ClientFirst(
        name=_name(name_part.removeprefix("n=")),
        authorization_id=_name(authorization_id) if authorization_id else "",
        nonce=nonce,
        extensions=_extensions(extensions),
        header=header,
        bare=bare,
    )


def _gs2_header(text: str) -> tuple[str, str]:
    """What the client says of channel binding and of whom it acts for; and the rest."""
    flag, first, after_flag = text.partition(",")
    authorization, second, bare = after_flag.partition(",")
    if not first or not second:
        raise LoginRefused("client-first-message: it has no GS2 header")
    if flag != "n":
        # `p=` asks for channel binding; `y` says that the client has it and thinks we do not.
        raise LoginRefused("client-first-message: channel binding is not offered")
    if authorization and not authorization.startswith("a="):
        raise LoginRefused("client-first-message: the authorization id is malformed")
    return f"{flag},{authorization},", bare


def write_server_first(nonce: str, salt: bytes, iterations: int) -> str:
    return f"r={nonce},s={_encoded(salt)},i={iterations}"


def read_server_first(data: bytes) -> ServerFirst:
    nonce_part, *parts = _text(data).split(",")
    if nonce_part.startswith("e=") or len(parts) < 2:
        raise LoginRefused(f"the server refused: {nonce_part[:200]}")
    nonce = _after("r=", nonce_part, "server-first-message")
    if not _NONCE.fullmatch(nonce):
        raise LoginRefused("server-first-message: the nonce has characters that none may have")
    salt = _decoded(_after("s=", parts[0], "server-first-message"), "server-first-message")
    iterations = _after("i=", parts[1], "server-first-message")
    if not (iterations.isascii() and iterations.isdigit() and len(iterations) < 10):
        raise LoginRefused("server-first-message: the iterations are no number")
    return ServerFirst(nonce, salt, int(iterations))


def read_client_final(data: bytes) -> ClientFinal:
    text = _text(data)
    without_proof, comma, proof_part = text.rpartition(",")
    binding_part, _, rest = without_proof.partition(",")
    nonce_part, *extensions = rest.split(",")
    if not comma:
        raise LoginRefused("client-final-message: it has no proof")
    binding = _after("c=", binding_part, "client-final-message")
    nonce = _after("r=", nonce_part, "client-final-message")
    _extensions(extensions)
    proof = _decoded(_after("p=", proof_part, "client-final-message"), "client-final-message")
    return ClientFinal(nonce, proof, without_proof, binding)


def write_client_final_without_proof(nonce: str) -> str:
    return f"c={_NO_BINDING},r={nonce}"


def write_proof(proof: bytes) -> str:
    return f"p={_encoded(proof)}"


def is_binding_of(binding: str, header: str) -> bool:
    """Some clients send the binding of an empty header whatever they said first."""
    return binding in (_NO_BINDING, _encoded(header.encode()))


def write_server_final(signature: bytes) -> str:
    return f"v={_encoded(signature)}"


def read_server_final(data: bytes) -> bytes:
    text = _text(data)
    if text.startswith("e="):
        raise LoginRefused(f"the server refused: {text[:200]}")
    first = text.split(",")[0]
    return _decoded(_after("v=", first, "server-final-message"), "server-final-message")


def _text(data: bytes) -> str:
    if len(data) > MAX_MESSAGE_BYTES:
        raise LoginRefused(f"a SCRAM message of {len(data)} bytes, at most {MAX_MESSAGE_BYTES}")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise LoginRefused("a SCRAM message that is not UTF-8") from None


def _after(prefix: str, part: str, message: str) -> str:
    if not part.startswith(prefix):
        raise LoginRefused(f"{message}: no {prefix} where one must be")
    return part.removeprefix(prefix)


def _name(saslname: str) -> str:
    if not _SASLNAME.fullmatch(saslname):
        raise LoginRefused("client-first-message: the name has characters that none may have")
    return unescape(saslname)


def _extensions(parts: list[str]) -> dict[str, str]:
    """Of no meaning here, but signed; so their form is checked and they are kept."""
    if len(parts) > MAX_EXTENSIONS:
        raise LoginRefused(f"{len(parts)} extensions, at most {MAX_EXTENSIONS}")
    found: dict[str, str] = {}
    for part in parts:
        matched = _EXTENSION.fullmatch(part)
        if matched is None or matched[1] == "m":
            raise LoginRefused("an extension that is malformed, or that we would have to know")
        found[matched[1]] = matched[2]
    return found


def _decoded(text: str, message: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise LoginRefused(f"{message}: it has what is no base64") from None


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()
