"""A process that divides the bytes of logs on behalf of a broker. Shell.

Own process, as the scanning worker, and not the same one: a scan may take hours and somebody looks
at the page now. It talks as that one does, in the same frames:

    broker: analyse(plan)    worker: progress(bytes) at most once a second
                             worker: analysed(report) | failed(detail)

A broker that stops ends the process. Between two plans it remembers what it knows of the last
partitions, so that the next look at one of them reads only what has grown; of all together no more
keys than one partition may have.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

from ledgerstone.erasure.scan_messages import Message
from ledgerstone.erasure.worker import BrokerGone, Conversation, Pace, ReadingFilesystem
from ledgerstone.fs import Filesystem
from ledgerstone.state.anatomy_division import MAX_KEYS
from ledgerstone.state.anatomy_plan import AnatomyPlan
from ledgerstone.state.anatomy_reading import Analysis
from ledgerstone.system import SystemDice
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import UUID_BYTES

_INPUT: Final = 0
_OUTPUT: Final = 1
# Whoever produces and consumes goes first.
_NICE: Final = 10


class Memory:
    """Analyses that may be gone on with, the one used last at the end."""

    def __init__(self, fs: Filesystem, *, seed: bytes, max_keys: int = MAX_KEYS) -> None:
        self._fs = fs
        self._seed = seed
        self._max_keys = max_keys
        self._known: dict[TopicPartition, Analysis] = {}

    def __len__(self) -> int:
        return len(self._known)

    def analyse(self, plan: AnatomyPlan, before_read: Callable[[int], None]) -> Message:
        """The answer to one plan. A border: what goes wrong is told, not raised."""
        tp = plan.topic_partition
        known = self._known.pop(tp, None) or Analysis(self._fs, seed=self._seed)
        try:
            report = known.bring_up_to(plan, before_read=before_read)
        except BrokerGone:
            raise
        except Exception as error:  # noqa: BLE001
            return {"kind": "failed", "detail": f"{type(error).__name__}: {error}"}
        self._known[tp] = known
        while len(self._known) > 1 and self._keys() > self._max_keys:
            del self._known[next(iter(self._known))]
        return {"kind": "analysed", "report": report.to_json()}

    def _keys(self) -> int:
        return sum(each.followed_keys for each in self._known.values())


def serve(conversation: Conversation, memory: Memory) -> None:
    """Plan after plan, until the broker closes the pipe."""
    while True:
        message = conversation.receive()
        plan = AnatomyPlan.from_json(message["plan"])
        pace = Pace(plan.bytes_per_second, conversation.go_on, now_s=time.monotonic())
        conversation.send(memory.analyse(plan, pace.before_read))


def main() -> None:
    # Ctrl-C at the broker's terminal is for the broker, which closes the pipe when it is done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    memory = Memory(ReadingFilesystem(), seed=SystemDice().random_bytes(UUID_BYTES))
    try:
        serve(Conversation(_INPUT, _OUTPUT), memory)
    except BrokerGone:
        sys.exit(0)


if __name__ == "__main__":
    main()
