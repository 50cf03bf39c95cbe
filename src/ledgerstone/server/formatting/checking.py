"""Whether a log directory may be started with these settings. Grade D; changes nothing."""

import logging
from collections.abc import Sequence
from typing import Final

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import ConfigError
from ledgerstone.fs import Filesystem, join
from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.control_records import VotersRecord
from ledgerstone.protocol.messages.metadata_records import FeatureLevelRecord
from ledgerstone.raft.control_batches import control_records, voters_of
from ledgerstone.server.formatting.bootstrap_file import read_bootstrap_file
from ledgerstone.server.formatting.writing import FIRST_SNAPSHOT, METADATA_DIR
from ledgerstone.storage.checkpoints import read_if_exists
from ledgerstone.storage.filenames import BOOTSTRAP_CHECKPOINT, META_PROPERTIES

_LOG: Final = logging.getLogger(__name__)


def check_formatted(fs: Filesystem, config: BrokerConfig) -> None:
    """ConfigError for a node of a quorum whose directory is not formatted: it could have lost its
    disk, and would vote again in an election it has voted in. Also for a single node whose
    directory belongs to a quorum of others."""
    path = config.cluster.metadata_log_dir
    if not config.cluster.is_configured:
        _check_first_voters(fs, config)
    elif not fs.exists(join(path, META_PROPERTIES)):
        reason = (
            "is not formatted. Run `ledgerstone format` first, with the cluster id of the other "
            "nodes. If this node was formatted before, its disk is missing or lost: do not format "
            "it again before you have read docs/quorum.md, Replace a lost disk"
        )
        raise ConfigError("log.dirs", path, reason)
    elif config.cluster.is_broker:
        _warn_of_features(fs, path)


def check_voters(config: BrokerConfig, voter_ids: Sequence[int]) -> None:
    """ConfigError for a single node whose metadata names other voters: without them it would wait
    for ever, or decide without them."""
    others = [node_id for node_id in voter_ids if node_id != config.node_id]
    if others and not config.cluster.is_configured:
        noun = "node" if len(others) == 1 else "nodes"
        reason = (
            f"must be set: {config.cluster.metadata_log_dir} belongs to a quorum with {noun} "
            f"{', '.join(map(str, others))}"
        )
        raise ConfigError("process.roles", "", reason)


def _check_first_voters(fs: Filesystem, config: BrokerConfig) -> None:
    path = join(join(config.cluster.metadata_log_dir, METADATA_DIR), FIRST_SNAPSHOT)
    data = read_if_exists(fs, path)
    for found in () if data is None else control_records(data):
        if isinstance(found.record, VotersRecord):
            check_voters(config, voters_of(found.record).ids)


def _warn_of_features(fs: Filesystem, path: str) -> None:
    """A cluster that begins with these takes no broker of ours."""
    foreign = [
        f"{each.name}={each.feature_level}"
        for each in read_bootstrap_records(fs, path) or ()
        if isinstance(each, FeatureLevelRecord) and each.name not in SUPPORTED_FEATURES
    ]
    if foreign:
        _LOG.warning(
            "formatted with features that no broker of this release supports: if this node begins "
            "the cluster, format it with level 0 of them file=%s features=%s",
            join(path, BOOTSTRAP_CHECKPOINT),
            ",".join(foreign),
        )


def read_bootstrap_records(fs: Filesystem, path: str) -> list[MetadataRecord] | None:
    """What the format of a log directory wants the first leader to write; None if it was formatted
    by a start, as a single node's is."""
    name = join(path, BOOTSTRAP_CHECKPOINT)
    data = read_if_exists(fs, name)
    return None if data is None else read_bootstrap_file(name, data)
