"""The first records of a new active controller. Pure.

A log without metadata.version has nothing in it yet. Its first leader writes the bootstrap records
as one transaction: a crash in between leaves no half of a cluster.
"""

from collections.abc import Sequence
from typing import Final

from ledgerstone.metadata.feature_updates import min_isr_records
from ledgerstone.metadata.features import (
    ELR_FEATURE,
    METADATA_VERSION_FEATURE,
    TRANSACTIONS_FROM,
)
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)

_BOOTSTRAP: Final = "Bootstrap records"
_ABORTED: Final = "Controller failover"


def activation_records(
    image: MetadataImage, bootstrap: Sequence[MetadataRecord], *, min_insync_replicas: str
) -> list[MetadataRecord]:
    """What a new active controller writes before it decides anything. `bootstrap` is what the
    cluster was formatted with; `min_insync_replicas` the static setting of this node."""
    records: list[MetadataRecord] = []
    if image.open_transaction is not None:
        records.append(AbortTransactionRecord(_ABORTED))
    if METADATA_VERSION_FEATURE in image.features:
        return records
    levels = {
        each.name: each.feature_level for each in bootstrap if isinstance(each, FeatureLevelRecord)
    }
    content = list(bootstrap)
    if levels.get(ELR_FEATURE, 0) > 0:
        content += min_isr_records(image, min_insync_replicas)
    if levels[METADATA_VERSION_FEATURE] >= TRANSACTIONS_FROM:
        content = [BeginTransactionRecord(_BOOTSTRAP), *content, EndTransactionRecord()]
    return records + content
