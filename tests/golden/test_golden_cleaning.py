"""Our pass over directories a real Apache Kafka was about to clean, beside what Kafka made of them.

Uncompressed data must come out byte for byte: logs, indexes, transaction indexes, and the times of
the files. Compressed batches may differ in their streams and nowhere else. See
kafka/PROVENANCE.md.
"""

import json
from typing import Any, NamedTuple

import pytest

from ledgerstone.records.batch import BatchHeader, iter_headers
from ledgerstone.records.record import Record, iter_records
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log import PartitionLog
from tests.kit.cleaning import plan_of, run
from tests.kit.golden import COPY, KAFKA, Golden, copied, golden_directories, opened

EXACT = ("cleaner-uncompressed", "cleaner-txn")
ENDINGS = (".log", ".index", ".timeindex", ".txnindex")


class Stage(NamedTuple):
    """One pass of Kafka's cleaner: the directory before it, the one after it, and its facts."""

    before: Golden
    after: Golden
    facts: dict[str, Any]

    @property
    def now_ms(self) -> int:
        """The clock of the pass, from a horizon it set."""
        known = {
            batch["baseOffset"]
            for batch in self.before.expected["batches"]
            if batch["deleteHorizonMs"] is not None
        }
        (set_now,) = {
            batch["deleteHorizonMs"]
            for batch in self.after.expected["batches"]
            if batch["deleteHorizonMs"] is not None and batch["baseOffset"] not in known
        }
        return int(set_now) - int(self.facts["config"]["delete.retention.ms"])

    @property
    def names(self) -> list[str]:
        return sorted(
            path.name for path in self.after.directory.iterdir() if path.name.endswith(ENDINGS)
        )


def _stages() -> list[Any]:
    by_label = {golden.directory: golden for golden in golden_directories()}
    stages = []
    for facts_path in sorted(KAFKA.glob("cleaner-*/facts.json")):
        topic = facts_path.parent.name
        facts = json.loads(facts_path.read_text(encoding="utf-8"))["stages"]
        for number in ("", "2", "3"):
            if f"after{number}" not in facts:
                continue
            before, after = (
                by_label[facts_path.parent / f"{word}{number}" / f"{topic}-0"]
                for word in ("before", "after")
            )
            stage = Stage(before, after, facts[f"after{number}"])
            stages.append(pytest.param(stage, id=f"{topic}{number}"))
    return stages


STAGES = _stages()
EXACT_STAGES = [param for param in STAGES if str(param.id).startswith(EXACT)]
COMPRESSED_STAGES = [param for param in STAGES if param not in EXACT_STAGES]


def _cleaned(stage: Stage) -> tuple[SimFilesystem, PartitionLog]:
    """The directory before the pass, after one of ours with Kafka's facts."""
    fs = copied(stage.before)
    log = opened(stage.before, fs, clean=True)
    facts = stage.facts["pass"]
    plan = plan_of(
        log,
        facts["firstDirtyOffset"],
        now_ms=stage.now_ms,
        delete_retention_ms=int(stage.facts["config"]["delete.retention.ms"]),
    )

    report = run(log, plan)

    assert report.end_offset == facts["endOffset"]
    log.check_invariants()
    return fs, log


def test_every_pass_of_kafka_is_compared() -> None:
    assert len(EXACT_STAGES) == 5
    assert len(COMPRESSED_STAGES) == 2


@pytest.mark.parametrize("stage", EXACT_STAGES)
def test_cleaned_files_are_kafkas_byte_for_byte(stage: Stage) -> None:
    fs, log = _cleaned(stage)
    files = fs.files()

    for name in stage.names:
        assert files[f"{COPY}/{name}"] == (stage.after.directory / name).read_bytes(), name
    bases = [int(name.split(".")[0]) for name in stage.names if name.endswith(".log")]
    assert log.segments.bases() == bases


@pytest.mark.parametrize("stage", STAGES)
def test_cleaned_files_carry_the_time_of_their_last_source(stage: Stage) -> None:
    fs, log = _cleaned(stage)
    cleaned = log.segments.bases()[:-1]
    expected = stage.after.expected["files"]

    for base in cleaned:
        for ending in (".log", ".index", ".timeindex"):
            name = f"{base:020d}{ending}"
            assert fs.mtime_ms(f"{COPY}/{name}") == expected[name]["mtimeMs"], name


@pytest.mark.parametrize("stage", COMPRESSED_STAGES)
def test_compressed_batches_hold_the_records_kafka_left_under_the_same_headers(
    stage: Stage,
) -> None:
    _, log = _cleaned(stage)

    for segment in log.segments:
        ours = _batches(segment.file.pread(segment.size, 0))
        name = f"{segment.base_offset:020d}.log"
        kafkas = _batches((stage.after.directory / name).read_bytes())
        assert ours == kafkas, name


def _batches(content: bytes) -> list[tuple[BatchHeader, list[Record]]]:
    """Headers without what the length of a compressed stream decides."""
    return [
        (header._replace(crc=0, batch_length=0), list(iter_records(content, position)))
        for position, header in iter_headers(content)
    ]
