"""A process that divides the bytes of logs on behalf of a broker. Shell.

Own process, and not the scanning one: a scan may take hours, and a page is looked at now. Between
two plans it remembers what it knows of the last partitions, so that the next look at one of them
reads only what has grown. All together it remembers no more keys than one partition may have.
"""

from collections.abc import Callable
from typing import Final

from ledgerstone.fs import Filesystem
from ledgerstone.state.anatomy_division import MAX_KEYS
from ledgerstone.state.anatomy_plan import AnatomyPlan, AnatomyReport
from ledgerstone.state.anatomy_reading import Analysis
from ledgerstone.system import ReadOnlyFilesystem, SystemDice
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import UUID_BYTES
from ledgerstone.workers.child import Line, OwnerGone, Work
from ledgerstone.workers.frames import Message
from ledgerstone.workers.pace import Pace

# Clients and cleaning go first.
NICE: Final = 10


class Memory:
    """Resumable analyses, the one used last at the end."""

    def __init__(self, fs: Filesystem, *, seed: bytes, max_keys: int = MAX_KEYS) -> None:
        self._fs = fs
        self._seed = seed
        self._max_keys = max_keys
        self._known: dict[TopicPartition, Analysis] = {}

    def __len__(self) -> int:
        return len(self._known)

    def analyse(
        self, plan: AnatomyPlan, before_read: Callable[[int], None] = lambda size: None
    ) -> AnatomyReport | str:
        """A border: what goes wrong is said, not raised, and costs what was known of the log."""
        tp = plan.topic_partition
        known = self._known.pop(tp, None) or Analysis(self._fs, seed=self._seed)
        try:
            report = known.bring_up_to(plan, before_read=before_read)
        except OwnerGone:
            raise
        except Exception as error:  # noqa: BLE001
            return f"{type(error).__name__}: {error}"
        self._known[tp] = known
        while len(self._known) > 1 and self._keys() > self._max_keys:
            del self._known[next(iter(self._known))]
        return report

    def _keys(self) -> int:
        return sum(each.followed_keys for each in self._known.values())


def work_from(memory: Memory) -> Work:
    def work(content: Message, line: Line) -> Message | str:
        plan = AnatomyPlan.from_json(content)
        pace = Pace(line, plan.bytes_per_second)
        found = memory.analyse(plan, pace.before_read)
        return found if isinstance(found, str) else found.to_json()

    return work


def make_work() -> Work:
    return work_from(Memory(ReadOnlyFilesystem(), seed=SystemDice().random_bytes(UUID_BYTES)))
