"""A worker that does as it is told, odd things included."""

import os
import signal
import sys

from ledgerstone.workers.child import Line, PipeLine, Work
from ledgerstone.workers.frames import LENGTH_BYTES, MAX_FRAME_BYTES, Message, encode

MODULE = "tests.kit.odd_worker"
OWN_KINDS = {
    "rubbish": b"Traceback (most recent call last):\n" + bytes(100),
    "no JSON": (4).to_bytes(LENGTH_BYTES, "big") + b"ssss",
    "too large": (MAX_FRAME_BYTES + 1).to_bytes(LENGTH_BYTES, "big"),
    "out of turn": encode({"kind": "here"}),
    "unknown": encode({"kind": "sorry"}),
}


def work(content: Message, line: Line) -> Message | str:
    do = content["do"]
    if do in OWN_KINDS:
        assert isinstance(line, PipeLine)
        line.write(OWN_KINDS[do])
        signal.pause()
    elif do == "hang":
        signal.pause()
    elif do == "die":
        os._exit(3)
    elif do == "fail":
        return "it did not work out"
    elif do == "raise":
        raise ValueError("a fault")
    elif do == "print":
        sys.stdout.write("a library says hello\n")
        sys.stdout.flush()
    elif do == "parts":
        for number in range(3):
            line.hand_over({"part": number})
            if line.is_aborted:
                return f"aborted at {number}"
    return {"did": do, "pid": os.getpid()}


NICE = 0


def make_work() -> Work:
    return work
