"""The first records of a simulated cluster. Pure."""

from ledgerstone.metadata.features import (
    ELR_FEATURE,
    METADATA_VERSION,
    METADATA_VERSION_FEATURE,
    TRANSACTION_VERSION,
    TRANSACTION_VERSION_FEATURE,
)
from ledgerstone.metadata.records import bootstrap_records
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.sim.controller.scenario import Config


def bootstrap(config: Config) -> list[MetadataRecord]:
    return bootstrap_records(
        {
            METADATA_VERSION_FEATURE: METADATA_VERSION,
            TRANSACTION_VERSION_FEATURE: TRANSACTION_VERSION,
            ELR_FEATURE: config.elr,
        }
    )
