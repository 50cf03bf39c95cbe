"""Frames: bounded before they are believed, and refused without being shown."""

import pytest

from ledgerstone.workers import frames
from ledgerstone.workers.frames import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    FrameRefused,
    body_size,
    decode,
    encode,
)


def test_message_comes_out_as_it_went_in() -> None:
    message = {"kind": "job", "content": {"keys": ["ä"], "count": 1 << 60}}

    frame = encode(message)

    assert body_size(frame[:LENGTH_BYTES]) == len(frame) - LENGTH_BYTES
    assert decode(frame[LENGTH_BYTES:]) == message


def test_frame_longer_than_any_message_is_not_believed() -> None:
    assert body_size(MAX_FRAME_BYTES.to_bytes(LENGTH_BYTES, "big")) == MAX_FRAME_BYTES
    with pytest.raises(FrameRefused, match="at most"):
        body_size((MAX_FRAME_BYTES + 1).to_bytes(LENGTH_BYTES, "big"))


def test_message_that_the_other_end_would_refuse_is_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 100)

    with pytest.raises(FrameRefused, match="at most 100"):
        encode({"kind": "done", "content": "x" * 100})


@pytest.mark.parametrize(
    "body",
    [b"", b"alice", b"\xff", b"[]", b'"alice"', b'{"secret":"alice"}', b'{"kind":7}', b"[" * 9999],
    ids=["empty", "text", "bytes", "list", "string", "no kind", "number", "deep"],
)
def test_what_is_no_message_is_refused_without_being_shown(body: bytes) -> None:
    with pytest.raises(FrameRefused) as refused:
        decode(body)

    assert "alice" not in str(refused.value)
    assert refused.value.__cause__ is None
