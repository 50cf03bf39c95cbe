"""The features of a cluster: their names, the levels this release supports, what each brings. Pure.

A node says which levels it supports when it registers; the controller finalizes one for all. A
feature at level 0 is off and has no record. `metadata.version` alone is always on: it says which
records, in which versions, may be in the log.
"""

from collections.abc import Mapping
from typing import Final

METADATA_VERSION_FEATURE: Final = "metadata.version"
KRAFT_VERSION_FEATURE: Final = "kraft.version"
TRANSACTION_VERSION_FEATURE: Final = "transaction.version"
GROUP_VERSION_FEATURE: Final = "group.version"
ELR_FEATURE: Final = "eligible.leader.replicas.version"
SHARE_VERSION_FEATURE: Final = "share.version"
STREAMS_VERSION_FEATURE: Final = "streams.version"

# Levels of metadata.version from which something holds.
MINIMUM_METADATA_VERSION: Final = 7  # 3.3-IV3, where Kafka 4 begins too
ZK_MIGRATION_FROM: Final = 8  # 3.4-IV0
SCRAM_FROM: Final = 11  # 3.5-IV2
ISR_SHRINK_KEEPS_EPOCH_FROM: Final = 12  # 3.6-IV0
TRANSACTIONS_FROM: Final = 13  # 3.6-IV1
CONTROLLER_REGISTRATION_FROM: Final = 15  # 3.7-IV0
DIRECTORIES_FROM: Final = 17  # 3.7-IV2
ELR_FROM: Final = 23  # 4.0-IV1
CORDONED_DIRECTORIES_FROM: Final = 30  # 4.3-IV0
METADATA_VERSION: Final = 30

# Levels whose records an older release cannot read: a downgrade across one would lose metadata.
RECORDS_CHANGED_AT: Final = frozenset({7, 8, 11, 13, 14, 15, 17, 23, 30})

# KIP-890: 1 has flexible records of transactions, 2 an epoch for each transaction.
TRANSACTION_VERSION: Final = 2

Levels = tuple[int, int]  # The first and the last.

# What a broker of this release supports. Groups of types consumer, share and streams are not
# served, so their features are not named: a cluster that has them on refuses this broker.
SUPPORTED_FEATURES: Final[Mapping[str, Levels]] = {
    METADATA_VERSION_FEATURE: (MINIMUM_METADATA_VERSION, METADATA_VERSION),
    KRAFT_VERSION_FEATURE: (0, 1),
    TRANSACTION_VERSION_FEATURE: (0, TRANSACTION_VERSION),
    ELR_FEATURE: (0, 1),
}

# What a controller supports: the types of groups mean nothing to it.
CONTROLLER_FEATURES: Final[Mapping[str, Levels]] = {
    **SUPPORTED_FEATURES,
    GROUP_VERSION_FEATURE: (0, 1),
    SHARE_VERSION_FEATURE: (0, 1),
    STREAMS_VERSION_FEATURE: (0, 1),
}

# What must be finalized before a level of a feature is.
DEPENDENCIES: Final[Mapping[tuple[str, int], Mapping[str, int]]] = {
    (ELR_FEATURE, 1): {METADATA_VERSION_FEATURE: ELR_FROM},
}
