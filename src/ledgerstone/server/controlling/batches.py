"""The records of a decision as batches of the metadata log. Pure."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.features import METADATA_VERSION, METADATA_VERSION_FEATURE
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.records import encode_record
from ledgerstone.metadata.replay import Replayed, apply
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.records.builder import RecordParts

# Decisions that need not be atomic are cut here.
MAX_BATCH_RECORDS: Final = 10_000


class RecordBatch(NamedTuple):
    parts: list[RecordParts]
    # What it makes of the image before it.
    applied: Replayed


def batches_of(image: MetadataImage, decision: Decision[Any], now_ms: int) -> list[RecordBatch]:
    """Ready to be appended; none where the decision changes nothing."""
    records = decision.records
    size = len(records) if decision.is_atomic else MAX_BATCH_RECORDS
    batches: list[RecordBatch] = []
    for start in range(0, len(records), max(size, 1)):
        piece = records[start : start + size]
        applied = apply(image, piece)
        batches.append(RecordBatch(record_parts(now_ms, piece, applied.image), applied))
        image = applied.image
    return batches


def record_parts(
    now_ms: int, records: Sequence[MetadataRecord], after: MetadataImage
) -> list[RecordParts]:
    """In the versions of the metadata.version that holds after them."""
    level = after.features.get(METADATA_VERSION_FEATURE, METADATA_VERSION)
    return [(now_ms, None, encode_record(record, level), ()) for record in records]
