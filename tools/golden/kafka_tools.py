"""Apache Kafka as an oracle: fetch its jars, run its dump tool, parse what it prints.

Shell grade (processes, network through `mvn`). Nothing of Kafka is stored in the repository: the
jars and two small helper classes compiled against them live in a cache directory outside of git.

What the dump tool gives and what it hides:
* keys and values go through a decoder; the default one prints UTF-8 text with replacement
  characters. `HexDecoder` beside this file prints exact bytes, and is always used here.
* header keys are printed as text and header *values* never. `HeaderDump` reads both with Kafka's
  record classes. A header key with a line break in it garbles the dump; do not test with one.
* a null and an empty key differ only in keySize (-1 and 0), the same for values.
* producer snapshots hold one batch per producer; `firstSequence` is computed by the tool.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

KAFKA_VERSION = "4.3.1"
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
CACHE_VARIABLE = "LEDGERSTONE_KAFKA_CACHE"
REPOSITORY = Path(__file__).resolve().parents[2]
DUMP_TOOL = "org.apache.kafka.tools.DumpLogSegments"
HELPERS = ("HexDecoder.java", "HeaderDump.java", "ConfigVerdict.java", "AclVerdict.java")
# All files of a run are one argument, and Linux passes on none of more than 128 KiB.
MAX_ARGUMENT_LENGTH = 100_000
DUMPED_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>ledgerstone</groupId><artifactId>kafka-cache</artifactId><version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId>
      <version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>{log4j}</version>
    </dependency>
  </dependencies>
</project>
"""
LOG4J_VERSION = "2.25.4"
# Kafka's jars bring no logging configuration; what a program logs goes to its stdout.
LOG4J_PROPERTIES = """status = error
appender.out.type = Console
appender.out.name = OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = {level}
rootLogger.appenderRef.out.ref = OUT
"""


class KafkaToolError(Exception):
    """Kafka's jars could not be fetched, or one of its programs failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaJars:
    """A directory with everything needed to run Kafka's programs of one version."""

    version: str
    directory: Path

    def java(self, *arguments: str, log_level: str = "error", heap_mb: int = 256) -> list[str]:
        """The command line that runs a class of these jars."""
        log4j = self.directory / f"log4j2-{log_level}.properties"
        if not log4j.exists():
            log4j.write_text(LOG4J_PROPERTIES.format(level=log_level))
        return [
            "java",
            f"-Xmx{heap_mb}m",
            # Serial GC and one compiler tier: these programs are short and share the machine.
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            *("-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-Dsun.stdout.encoding=UTF-8"),
            f"-Dlog4j2.configurationFile={log4j}",
            "-cp",
            f"{self.directory / 'helpers'}{os.pathsep}{self.directory / 'libs'}/*",
            *arguments,
        ]


def default_cache() -> Path:
    configured = os.environ.get(CACHE_VARIABLE)
    return Path(configured) if configured else REPOSITORY / ".cache" / "kafka"


def fetch_jars(cache: Path | None = None, version: str = KAFKA_VERSION) -> KafkaJars:
    """The jars of one Kafka version, fetched with Maven on first use."""
    directory = (cache or default_cache()) / version
    fetch_into(directory, POM.format(version=version, log4j=LOG4J_VERSION), HELPERS)
    return KafkaJars(version=version, directory=directory)


def fetch_into(directory: Path, pom: str, helpers: Sequence[str]) -> None:
    """What `pom` names, fetched with Maven on first use; `helpers` beside this file, compiled."""
    if not (directory / "complete").exists():
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "pom.xml").write_text(pom)
        options = ["-DoutputDirectory=libs", "-DincludeScope=runtime"]
        _checked(["mvn", "-B", "-q", DEPENDENCY_PLUGIN, *options], cwd=directory)
        (directory / "complete").touch()
    _compile_helpers(directory, helpers)


def _compile_helpers(directory: Path, names: Sequence[str]) -> None:
    classes = directory / "helpers"
    sources = [Path(__file__).with_name(name) for name in names]
    newest_source = max(source.stat().st_mtime for source in sources)
    if classes.exists() and classes.stat().st_mtime > newest_source:
        return
    shutil.rmtree(classes, ignore_errors=True)
    command = ["javac", "-d", str(classes), "-cp", f"{directory / 'libs'}/*"]
    _checked([*command, *map(str, sources)], cwd=directory)


def _checked(command: Sequence[str], cwd: Path | None = None, *, with_stderr: bool = False) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        tail = (done.stdout + done.stderr)[-2000:]
        raise KafkaToolError(f"exit status {done.returncode} of {' '.join(command)}\n{tail}")
    return done.stdout + done.stderr if with_stderr else done.stdout


# --- what the dump tool says, as values -------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedRecord:
    offset: int
    timestamp_type: str
    timestamp: int
    sequence: int
    key: bytes | None
    value: bytes | None
    # From HeaderDump; parse_dump alone leaves them empty.
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    control_type: str | None = None  # COMMIT, ABORT, ...
    coordinator_epoch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedBatch:
    base_offset: int
    last_offset: int
    count: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    partition_leader_epoch: int
    is_transactional: bool
    is_control: bool
    delete_horizon_ms: int | None
    position: int
    timestamp_type: str
    max_timestamp: int
    size: int
    magic: int
    compresscodec: str
    crc: int
    isvalid: bool
    records: tuple[DumpedRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedIndexEntry:
    offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedTimeIndexEntry:
    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedAbortedTxn:
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedProducer:
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    current_txn_first_offset: int | None
    last_timestamp: int
    # The newest batch; all None when the producer has written markers only.
    first_sequence: int | None
    last_sequence: int | None
    last_offset: int | None
    offset_delta: int | None
    timestamp: int | None


@dataclass(slots=True, kw_only=True)
class FileDump:
    """One file as the dump tool saw it; only the list of its own kind is filled."""

    name: str
    batches: list[DumpedBatch] = field(default_factory=list)
    index: list[DumpedIndexEntry] = field(default_factory=list)
    time_index: list[DumpedTimeIndexEntry] = field(default_factory=list)
    aborted_txns: list[DumpedAbortedTxn] = field(default_factory=list)
    producers: list[DumpedProducer] = field(default_factory=list)
    gaps: list[tuple[int, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDump:
    """Every file of a partition directory, by name, and what the tool complained about."""

    directory: Path
    files: dict[str, FileDump]

    def of_kind(self, suffix: str) -> Iterator[FileDump]:
        return (dump for name, dump in sorted(self.files.items()) if name.endswith(suffix))

    @property
    def batches(self) -> list[DumpedBatch]:
        return [batch for dump in self.of_kind(".log") for batch in dump.batches]

    @property
    def problems(self) -> list[str]:
        found = [f"{name}: {text}" for name, dump in self.files.items() for text in dump.problems]
        for name, dump in self.files.items():
            found += [
                f"{name}: batch at {batch.position} has a bad crc"
                for batch in dump.batches
                if not batch.isvalid
            ]
        return found


def read_partition(jars: KafkaJars, directory: Path) -> PartitionDump:
    """Everything Kafka's tools say about one partition directory."""
    return read_partitions(jars, [directory])[0]


def read_partitions(jars: KafkaJars, directories: Sequence[Path]) -> list[PartitionDump]:
    """As read_partition, with one JVM start per tool for all directories.

    The tool is run on copies: it must never be able to change what it judges.
    """
    with tempfile.TemporaryDirectory(prefix="kafka-dump-") as scratch:
        copies = []
        for number, directory in enumerate(directories):
            copy = Path(scratch) / str(number) / directory.name
            shutil.copytree(directory, copy)
            copies.append(copy)
        files = [path for copy in copies for path in dumped_files(copy)]
        dumps = _dump_each(jars, files)
        for path, text in _index_complaints(jars, files):
            dumps[path].problems.append(text)
        headers = _read_headers(jars, [path for path in files if _is_sound_log(dumps[path])])
        for path, by_offset in headers.items():
            dumps[path].batches = [_with_headers(b, by_offset) for b in dumps[path].batches]
        for path, dump in dumps.items():
            dump.problems = [text.replace(f"{path.parent}/", "") for text in dump.problems]
        return [
            PartitionDump(
                directory=directory,
                files={path.name: dumps[path] for path in files if path.parent == copy},
            )
            for directory, copy in zip(directories, copies, strict=True)
        ]


def _is_sound_log(dump: FileDump) -> bool:
    whole = not dump.problems and all(batch.isvalid for batch in dump.batches)
    return whole and dump.name.endswith(".log")


def dumped_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix in DUMPED_SUFFIXES)


def _dump_each(jars: KafkaJars, files: Sequence[Path], *flags: str) -> dict[Path, FileDump]:
    """All files in one run; file by file if the tool gives up, to tell which one it was."""
    empty = {path: FileDump(name=path.name) for path in files}
    if not files:
        return {}
    if sum(len(str(path)) + 1 for path in files) > MAX_ARGUMENT_LENGTH:
        half = len(files) // 2
        return _dump_each(jars, files[:half], *flags) | _dump_each(jars, files[half:], *flags)
    try:
        return empty | parse_dump(_run_dump(jars, files, *flags))
    except KafkaToolError as failure:
        if len(files) == 1:
            empty[files[0]].problems.append(f"the dump tool failed: {_exception_in(failure)}")
            return empty
    return {path: _dump_each(jars, [path], *flags)[path] for path in files}


def _exception_in(failure: KafkaToolError) -> str:
    """The line that names the Java exception, without the command and the stack."""
    lines = str(failure).splitlines()
    named = (line for line in lines if line.startswith("Exception in thread"))
    return next(named, lines[-1]).removeprefix('Exception in thread "main" ')


def _run_dump(jars: KafkaJars, files: Sequence[Path], *flags: str) -> str:
    decoders = ["--key-decoder-class", "HexDecoder", "--value-decoder-class", "HexDecoder"]
    options = list(flags) if flags else ["--deep-iteration", "--print-data-log", *decoders]
    command = jars.java(DUMP_TOOL, *options, "--files", ",".join(map(str, files)))
    # Complaints go to stderr; they name their file, so the order of the two does not matter.
    return _checked(command, with_stderr=True)


def _index_complaints(jars: KafkaJars, files: Sequence[Path]) -> Iterator[tuple[Path, str]]:
    """What --index-sanity-check and --verify-index-only say beyond the plain dump."""
    indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
    for flag in ("--index-sanity-check", "--verify-index-only"):
        for path, dump in _dump_each(jars, indexes, flag).items():
            yield from ((path, f"{flag}: {text}") for text in dump.problems)


def _read_headers(
    jars: KafkaJars, logs: Sequence[Path]
) -> dict[Path, dict[int, list[tuple[bytes, bytes | None]]]]:
    if not logs:
        return {}
    found: dict[Path, dict[int, list[tuple[bytes, bytes | None]]]] = {path: {} for path in logs}
    current = found[logs[0]]
    for line in _checked(jars.java("HeaderDump", *map(str, logs))).splitlines():
        if line.startswith("file "):
            current = found[Path(line.removeprefix("file "))]
            continue
        offset, key, value = line.split(" ")
        pair = (bytes.fromhex(key[1:]), None if value == "-" else bytes.fromhex(value[1:]))
        current.setdefault(int(offset), []).append(pair)
    return found


def _with_headers(
    batch: DumpedBatch, by_offset: dict[int, list[tuple[bytes, bytes | None]]]
) -> DumpedBatch:
    records = tuple(
        replace(record, headers=tuple(by_offset.get(record.offset, ()))) for record in batch.records
    )
    return replace(batch, records=records)


# --- the parser -------------------------------------------------------------------------------

DUMPING = re.compile(r"^Dumping (?P<file>.+)$")
BATCH = re.compile(
    r"^baseOffset: (?P<base_offset>-?\d+) lastOffset: (?P<last_offset>-?\d+) "
    r"count: (?P<count>-?\d+) baseSequence: (?P<base_sequence>-?\d+) "
    r"lastSequence: (?P<last_sequence>-?\d+) producerId: (?P<producer_id>-?\d+) "
    r"producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<partition_leader_epoch>-?\d+) "
    r"isTransactional: (?P<is_transactional>\w+) isControl: (?P<is_control>\w+) "
    r"deleteHorizonMs: (?P<delete_horizon_ms>\S+) position: (?P<position>\d+) "
    r"(?P<timestamp_type>\w+): (?P<max_timestamp>-?\d+) size: (?P<size>\d+) "
    r"magic: (?P<magic>\d+) compresscodec: (?P<compresscodec>\w+) crc: (?P<crc>\d+) "
    r"isvalid: (?P<isvalid>\w+)$"
)
RECORD = re.compile(
    r"^\| offset: (?P<offset>\d+) (?P<timestamp_type>\w+): (?P<timestamp>-?\d+) "
    r"keySize: (?P<key_size>-?\d+) valueSize: (?P<value_size>-?\d+) "
    r"sequence: (?P<sequence>-?\d+) headerKeys: \[.*\]"
    r"(?: endTxnMarker: (?P<marker>\w+) coordinatorEpoch: (?P<coordinator_epoch>-?\d+))?"
    r"(?P<other_control> (?:LeaderChange|SnapshotHeader|SnapshotFooter|KRaftV\w+|controlType).*)?"
    r"(?: key: (?P<key>[0-9a-f]*))?(?: payload: (?P<value>[0-9a-f]*))?$"
)
INDEX_ENTRY = re.compile(r"^offset: (?P<offset>-?\d+) position: (?P<position>\d+)$")
TIME_INDEX_ENTRY = re.compile(r"^timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>-?\d+)$")
ABORTED_TXN = re.compile(
    r"^version: (?P<version>\d+) producerId: (?P<producer_id>-?\d+) "
    r"firstOffset: (?P<first_offset>\d+) lastOffset: (?P<last_offset>\d+) "
    r"lastStableOffset: (?P<last_stable_offset>\d+)$"
)
PRODUCER = re.compile(
    r"^producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"coordinatorEpoch: (?P<coordinator_epoch>-?\d+) "
    r"currentTxnFirstOffset: (?P<current_txn_first_offset>\S+) "
    r"lastTimestamp: (?P<last_timestamp>-?\d+)"
    r"(?: ?firstSequence: (?P<first_sequence>-?\d+) lastSequence: (?P<last_sequence>-?\d+) "
    r"lastOffset: (?P<last_offset>-?\d+) offsetDelta: (?P<offset_delta>-?\d+) "
    r"timestamp: (?P<timestamp>-?\d+))?\s*$"
)
# Complaints collected while reading are printed at the end, each under the path it is about.
COMPLAINT = re.compile(
    r"^(?P<what>Mismatches in|The following indexed offsets are not found in|"
    r"Found out of order timestamp in|Found timestamp mismatch in) ?:(?P<file>.+)$"
)
GAPS = re.compile(r"^Non-consecutive offsets in (?P<file>.+)$")
GAP = re.compile(r"^  (?P<before>-?\d+) is followed by (?P<after>\d+)$")
QUIET = re.compile(
    r"^(Log starting offset: |Snapshot end offset: |.* is empty\.$|.* passed sanity check\.$|$)"
)


def parse_dump(text: str) -> dict[Path, FileDump]:
    """The output of one run of the dump tool, by file. Lines not understood become problems."""
    parser = _DumpParser()
    for line in text.splitlines():
        parser.feed(line)
    parser.finish_batch()
    return parser.dumps


@dataclass(slots=True)
class _DumpParser:
    """Reads line by line; the file a line belongs to is the last one named."""

    dumps: dict[Path, FileDump] = field(default_factory=dict)
    current: FileDump | None = None
    batch: DumpedBatch | None = None
    records: list[DumpedRecord] = field(default_factory=list)
    complaint: str | None = None

    def feed(self, line: str) -> None:
        if (found := DUMPING.match(line)) is not None:
            self._enter(found["file"], None)
        elif (found := COMPLAINT.match(line)) is not None:
            self._enter(found["file"], found["what"])
        elif (found := GAPS.match(line)) is not None:
            self._enter(found["file"], None)
        elif self.current is not None and not QUIET.match(line):
            self._content(self.current, line)

    def _enter(self, file: str, complaint: str | None) -> None:
        self.finish_batch()
        path = Path(file)
        self.current = self.dumps.setdefault(path, FileDump(name=path.name))
        self.complaint = complaint

    def finish_batch(self) -> None:
        if self.batch is not None and self.current is not None:
            self.current.batches.append(replace(self.batch, records=tuple(self.records)))
        self.batch = None
        self.records = []

    def _content(self, dump: FileDump, line: str) -> None:
        if self.complaint is not None:
            dump.problems.append(f"{self.complaint}: {line.strip()}")
        elif (found := RECORD.match(line)) is not None:
            self.records.append(_record(found))
        elif (found := BATCH.match(line)) is not None:
            self.finish_batch()
            self.batch = _batch(found)
        elif (found := GAP.match(line)) is not None:
            # A gap is normal after compaction, and every segment starts with one from -1.
            if int(found["before"]) >= 0:
                dump.gaps.append((int(found["before"]), int(found["after"])))
        elif not _index_line(dump, line):
            dump.problems.append(f"unexpected output: {line}")


def _index_line(dump: FileDump, line: str) -> bool:
    """Takes a line of an index or snapshot dump; false if it is something else."""
    if (found := INDEX_ENTRY.match(line)) is not None:
        numbers = _integers(found)
        dump.index.append(DumpedIndexEntry(offset=numbers["offset"], position=numbers["position"]))
    elif (found := TIME_INDEX_ENTRY.match(line)) is not None:
        numbers = _integers(found)
        dump.time_index.append(
            DumpedTimeIndexEntry(timestamp=numbers["timestamp"], offset=numbers["offset"])
        )
    elif (found := ABORTED_TXN.match(line)) is not None:
        dump.aborted_txns.append(DumpedAbortedTxn(**_integers(found)))
    elif (found := PRODUCER.match(line)) is not None:
        dump.producers.append(_producer(found))
    else:
        return False
    return True


def _integers(found: re.Match[str]) -> dict[str, int]:
    return {name: int(text) for name, text in found.groupdict().items()}


def _optional_long(text: str) -> int | None:
    """Java's OptionalLong.empty, OptionalLong[5] or Optional[5]."""
    digits = re.search(r"\[(-?\d+)\]", text)
    return int(digits[1]) if digits else None


def _maybe(text: str | None) -> int | None:
    return None if text is None else int(text)


def _batch(found: re.Match[str]) -> DumpedBatch:
    return DumpedBatch(
        base_offset=int(found["base_offset"]),
        last_offset=int(found["last_offset"]),
        count=int(found["count"]),
        base_sequence=int(found["base_sequence"]),
        last_sequence=int(found["last_sequence"]),
        producer_id=int(found["producer_id"]),
        producer_epoch=int(found["producer_epoch"]),
        partition_leader_epoch=int(found["partition_leader_epoch"]),
        is_transactional=found["is_transactional"] == "true",
        is_control=found["is_control"] == "true",
        delete_horizon_ms=_optional_long(found["delete_horizon_ms"]),
        position=int(found["position"]),
        timestamp_type=found["timestamp_type"],
        max_timestamp=int(found["max_timestamp"]),
        size=int(found["size"]),
        magic=int(found["magic"]),
        compresscodec=found["compresscodec"],
        crc=int(found["crc"]),
        isvalid=found["isvalid"] == "true",
    )


def _record(found: re.Match[str]) -> DumpedRecord:
    other = found["other_control"]
    control_type = found["marker"] or (other.split()[0].rstrip(":") if other else None)
    return DumpedRecord(
        offset=int(found["offset"]),
        timestamp_type=found["timestamp_type"],
        timestamp=int(found["timestamp"]),
        sequence=int(found["sequence"]),
        key=_sized(found["key_size"], found["key"], control_type),
        value=_sized(found["value_size"], found["value"], control_type),
        control_type=control_type,
        coordinator_epoch=_maybe(found["coordinator_epoch"]),
    )


def _sized(size: str, digits: str | None, control_type: str | None) -> bytes | None:
    """The printed bytes; None for null, and for control records, whose bytes are not printed."""
    if int(size) < 0 or control_type is not None:
        return None
    data = bytes.fromhex(digits or "")
    if len(data) != int(size):
        raise KafkaToolError(f"dump says {size} bytes and prints {len(data)}: {digits}")
    return data


def _producer(found: re.Match[str]) -> DumpedProducer:
    return DumpedProducer(
        producer_id=int(found["producer_id"]),
        producer_epoch=int(found["producer_epoch"]),
        coordinator_epoch=int(found["coordinator_epoch"]),
        current_txn_first_offset=_optional_long(found["current_txn_first_offset"]),
        last_timestamp=int(found["last_timestamp"]),
        first_sequence=_maybe(found["first_sequence"]),
        last_sequence=_maybe(found["last_sequence"]),
        last_offset=_maybe(found["last_offset"]),
        offset_delta=_maybe(found["offset_delta"]),
        timestamp=_maybe(found["timestamp"]),
    )
