"""Every file under every log directory, scanned for keys. Grade D.

The broker goes on meanwhile. Files that went are listed; files that came are scanned too; where a
log file left a directory, its content may have moved into one that was scanned before, so that
directory is scanned again. Where a directory with logs is gone, it may have another name by now, so
all are listed again. A file that grows is scanned up to the size seen first: what came later is
younger than the scan. Contract: the section "Search and scan" of README.md.
"""

from collections.abc import Callable, Iterable
from typing import Final

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.erasure.erasure import FileTrouble
from ledgerstone.erasure.file_scan import FileScan
from ledgerstone.erasure.log_windows import WindowReader
from ledgerstone.erasure.manifest import digest_of, kinds_of, partitions_of
from ledgerstone.erasure.path_names import PathNames
from ledgerstone.erasure.print_table import PrintTable
from ledgerstone.erasure.scan_plan import FileDigest, ResiduePlan, ScanReport, UnreadableBytes
from ledgerstone.erasure.tally import NOWHERE, AsideFile, findings_of
from ledgerstone.fs import Filesystem, join, name_of, parent_of
from ledgerstone.storage.filenames import (
    FOLLOWS,
    MAX_NAME_LENGTH,
    DirState,
    Kind,
    PartitionDir,
    file_name,
    is_metadata_snapshot,
    parse_file_name,
    parse_partition_dir,
)

# How often a directory is looked at whose logs change under the scan.
MAX_ROUNDS: Final = 3
# Deeper than any log directory; a link that leads back up ends here.
_MAX_DEPTH: Final = 16
# Of these nothing is truncated or compacted any more.
_ASIDE: Final = (DirState.STRAY, DirState.DELETE)


def scan_dirs(
    fs: Filesystem,
    plan: ResiduePlan,
    *,
    before_read: Callable[[int], None] = lambda size: None,
    go_on: Callable[[], None] = lambda: None,
) -> ScanReport:
    """`before_read` gets the size of each window; `go_on` is called before each file and each
    directory. Both may wait, or raise."""
    return _ResidueScan(fs, plan, before_read, go_on).run()


@dataclass(slots=True)
class _ResidueScan:
    fs: Filesystem
    plan: ResiduePlan
    before_read: Callable[[int], None]
    go_on: Callable[[], None]
    table: PrintTable = field(init=False)
    reader: WindowReader = field(init=False)
    names: PathNames = field(init=False)
    # All by path, so that a second look at a file replaces the first.
    done: dict[str, FileScan] = field(default_factory=dict)
    damaged: dict[str, list[UnreadableBytes]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    directories: dict[str, None] = field(default_factory=dict)  # as of the last listing
    grown: dict[str, None] = field(default_factory=dict)
    vanished: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.table = PrintTable(self.plan.keys)
        self.names = PathNames(self.table)
        self.reader = WindowReader(
            lead_bytes=max(self.table.longest_raw_bytes - 1, 0),
            before_read=self.before_read,
            decompression_limit=self.plan.decompression_limit_bytes,
        )

    def run(self) -> ScanReport:
        listed = self._list_all()
        wanted = list(listed)
        moved: list[str] = []
        gone: list[str] = []
        for _ in range(MAX_ROUNDS):
            for path in wanted:
                self._scan_file(path, listed[path])
            before, listed = listed, self._list_all()
            for path in before:
                if path not in listed:
                    self._forget(path)
                    self.vanished[path] = None
            moved, gone = _without_rest(before, listed)
            wanted = [path for path in listed if path not in before or parent_of(path) in moved]
            if not wanted and not gone:
                break
        # What is only new is younger than the scan, and what was moved again may be anywhere. So
        # may a directory that was renamed: what was found in it went with its name.
        return self._report([*moved, *gone])

    def _list_all(self) -> dict[str, str]:
        """Path in the report to path on the disk, sorted."""
        found: dict[str, str] = {}
        self.directories.clear()
        for number, log_dir in enumerate(self.plan.log_dirs):
            self._list(str(number), log_dir, 0, found)
        return found

    def _list(self, name: str, path: str, depth: int, found: dict[str, str]) -> None:
        self.go_on()
        try:
            entries = self.fs.list_dir(path)
        except FileNotFoundError:
            if depth == 0:
                self.unreadable[name] = "there is no such log directory"
            return
        except OSError as error:
            self.unreadable[name] = _reason(error)
            return
        for entry in entries:
            inner, inner_path = join(name, entry), join(path, entry)
            if not self.fs.is_dir(inner_path):
                found[inner] = inner_path
                continue
            self.directories[inner] = None
            if depth < _MAX_DEPTH:
                self._list(inner, inner_path, depth + 1, found)
            else:
                self.unreadable[inner] = f"more than {_MAX_DEPTH} directories deep"

    def _scan_file(self, path: str, disk_path: str) -> None:
        self.go_on()
        self._forget(path)
        partition, shown = _partition_of(path), self.names.shown(path)
        scan = FileScan(
            table=self.table,
            reader=self.reader,
            path=shown,
            name=name_of(path),
            topic_partition=NOWHERE if partition is None else partition.topic_partition,
            is_log=_is_log(path),
            aside=self._aside(partition, parent_of(path), parent_of(disk_path), shown),
            log_bytes=self._log_bytes(disk_path),
        )
        self.reader.damaged = []
        try:
            file = self.fs.open(disk_path)
        except FileNotFoundError:
            self.vanished[path] = None
            return
        except OSError as error:
            self.unreadable[path] = _reason(error)
            return
        try:
            size = file.size()
            scan.run(file, size)
            if file.size() > size:
                self.grown[path] = None
        except OSError as error:
            self.unreadable[path] = _reason(error)
        finally:
            file.close()
        self.done[path] = scan
        if self.reader.damaged:
            self.damaged[path] = self.reader.damaged

    def _aside(
        self, partition: PartitionDir | None, directory: str, disk_path: str, shown: str
    ) -> AsideFile | None:
        """None for a log as it stands."""
        if partition is None:
            return None
        is_cut = partition.state in _ASIDE and len(name_of(directory)) == MAX_NAME_LENGTH
        is_hosted = (
            partition.topic_partition.topic not in self.plan.topics
            or disk_path in self.plan.replicas
        )
        if partition.state is DirState.LIVE and is_hosted:
            return None
        return AsideFile(shown, is_cut, partition.state not in _ASIDE)

    def _log_bytes(self, disk_path: str) -> int:
        """The size of the log that an index lies beside; 0 where there is none."""
        parsed = parse_file_name(name_of(disk_path))
        if parsed is None or parsed.kind is not Kind.INDEX:
            return 0
        log = file_name(parsed.offset, Kind.LOG, parsed.suffix, parsed.number)
        try:
            return self.fs.size_of(join(parent_of(disk_path), log))
        except OSError:
            return 0

    def _forget(self, path: str) -> None:
        self.done.pop(path, None)
        self.damaged.pop(path, None)
        self.unreadable.pop(path, None)
        self.grown.pop(path, None)
        self.vanished.pop(path, None)

    def _report(self, restless: list[str]) -> ScanReport:
        tally = self.names.look(self.plan.log_dirs, self.directories, self.done)
        for _, scan in sorted(self.done.items()):
            tally.add(scan.tally)
        files = [
            FileDigest(path, scan.size_bytes, scan.crc) for path, scan in sorted(self.done.items())
        ]
        topics = [each[1].topic for each in tally.spreads]
        topics += [each[1].topic for each in tally.aside]
        return ScanReport(
            prints=tuple(findings_of(tally, self.table.members, self.plan.keys)),
            files=tuple(files),
            scanned_bytes=sum(each.size_bytes for each in files),
            digest=digest_of(files),
            vanished=self._shown(self.vanished),
            grown=self._shown(self.grown),
            damaged=tuple(each for _, found in sorted(self.damaged.items()) for each in found),
            unreadable=tuple(
                FileTrouble(self.names.shown(path), why)
                for path, why in sorted(self.unreadable.items())
            ),
            restless=self._shown(restless),
            hidden_topics=self.names.hidden(topics),
            kinds=kinds_of(files),
            partitions=partitions_of(files),
        )

    def _shown(self, paths: Iterable[str]) -> tuple[str, ...]:
        return tuple(self.names.shown(path) for path in sorted(paths))


def _without_rest(before: dict[str, str], now: dict[str, str]) -> tuple[list[str], list[str]]:
    """The directories that lost a log file: those with files still there, and those without."""
    lost = {parent_of(path): None for path in before if path not in now and _is_log(path)}
    left = {parent_of(path): None for path in now}
    moved = sorted(directory for directory in lost if directory in left)
    return moved, sorted(directory for directory in lost if directory not in left)


def _partition_of(path: str) -> PartitionDir | None:
    """Of a file in a directory of a log directory; deeper ones are somebody's copies."""
    directory = parent_of(path)
    if directory.count("/") != 1:
        return None
    return parse_partition_dir(name_of(directory))


def _is_log(path: str) -> bool:
    name = name_of(path)
    parsed = parse_file_name(name)
    if parsed is None:
        return is_metadata_snapshot(name)
    return parsed.kind is Kind.LOG and parsed.suffix != FOLLOWS


def _reason(error: OSError) -> str:
    """Without the path, which is named beside it."""
    return error.strerror or type(error).__name__
