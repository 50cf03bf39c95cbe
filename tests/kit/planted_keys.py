"""Log directories with keys planted in them, for tests of search and scan."""

from collections.abc import Callable, Sequence

from ledgerstone.erasure.key_print import PrintKey
from ledgerstone.erasure.residue import scan_dirs
from ledgerstone.erasure.scan_plan import (
    KeyPrints,
    LiveSegment,
    ResiduePlan,
    ScannedPartition,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.erasure.search import search_partitions
from ledgerstone.fs import Filesystem, join, parent_of
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.types import TopicPartition

PRINT_KEY = PrintKey.from_salt(bytes(range(32)))
LOG_DIR = "/data"
PARTITION = "customers-0"
TP = TopicPartition("customers", 0)
LOG = "00000000000000000000.log"


def keys_of(*keys: bytes, topic: str = "customers") -> KeyPrints:
    return KeyPrints.under(PRINT_KEY, [PRINT_KEY.print_of(topic, key) for key in keys])


def disk_with(files: dict[str, bytes]) -> SimFilesystem:
    """Paths are relative to the log directory."""
    fs = SimFilesystem(dice=SeededDice(0), clock=VirtualClock(start_ms=0))
    fs.make_dir(LOG_DIR)
    for name, content in files.items():
        put(fs, name, content)
    return fs


def put(fs: Filesystem, name: str, content: bytes) -> None:
    path = join(LOG_DIR, name)
    fs.make_dir(parent_of(path))
    file = fs.open(path, create=True)
    file.pwrite(content, 0)
    file.close()


def scanned(
    fs: Filesystem, *keys: bytes, before_read: Callable[[int], None] = lambda size: None
) -> ScanReport:
    plan = ResiduePlan(log_dirs=(LOG_DIR,), keys=keys_of(*keys))
    return scan_dirs(fs, plan, before_read=before_read)


def searched(
    fs: Filesystem,
    *keys: bytes,
    directory: str = PARTITION,
    segments: Sequence[LiveSegment] | None = None,
    max_places: int = 100,
) -> SearchReport:
    """Every segment up to its end, unless told otherwise."""
    path = join(LOG_DIR, directory)
    if segments is None:
        names = [name for name in fs.list_dir(path) if name.endswith(".log")]
        segments = [LiveSegment(int(name[:20]), fs.size_of(join(path, name))) for name in names]
    files = ScannedPartition(topic_partition=TP, directory=path, segments=tuple(segments))
    plan = SearchPlan(partitions=(files,), keys=keys_of(*keys), max_places=max_places)
    return search_partitions(fs, plan)
