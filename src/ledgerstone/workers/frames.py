"""How messages travel between an owner and its worker. Pure.

A frame is four bytes of length and a JSON object with a `kind`. Both ends are the same program, so
there is one version, and nothing but plain data is ever revived from bytes. A length is checked
before a byte of the frame is read or allocated. Refusals never show content: it may be a secret.
"""

import json
from typing import Any, Final

LENGTH_BYTES: Final = 4
# A plan names every segment of a log, a report every file of a node. Neither comes near this.
MAX_FRAME_BYTES: Final = 256 << 20

Message = dict[str, Any]


class FrameRefused(Exception):
    """These bytes are no message of ours."""


def encode(message: Message) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    if len(body) > MAX_FRAME_BYTES:
        raise FrameRefused(f"a message of {len(body)} bytes, at most {MAX_FRAME_BYTES} are sent")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def body_size(prefix: bytes) -> int:
    size = int.from_bytes(prefix, "big")
    if size > MAX_FRAME_BYTES:
        raise FrameRefused(f"a frame of {size} bytes, at most {MAX_FRAME_BYTES} are believed")
    return size


def decode(body: bytes) -> Message:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        # Without its cause, which quotes what was read.
        raise FrameRefused(f"{len(body)} bytes are no JSON") from None
    if not isinstance(message, dict) or not isinstance(message.get("kind"), str):
        raise FrameRefused(f"{len(body)} bytes are no message")
    return message
