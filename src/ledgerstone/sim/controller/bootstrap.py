"""The first records of a simulated cluster. Pure."""

from ledgerstone.metadata.records import ELR_FEATURE, bootstrap_records
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import FeatureLevelRecord
from ledgerstone.sim.controller.scenario import Config


def bootstrap(config: Config) -> list[MetadataRecord]:
    records = bootstrap_records()
    if config.elr:
        records.append(FeatureLevelRecord(name=ELR_FEATURE, feature_level=1))
    return records
