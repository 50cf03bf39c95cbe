"""Whether a log directory may be started with these settings. Grade D; changes nothing."""

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import ConfigError
from ledgerstone.fs import Filesystem, join
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.control_records import VotersRecord
from ledgerstone.raft.control_batches import control_records, voters_of
from ledgerstone.server.formatting.bootstrap_file import (
    BOOTSTRAP_CHECKPOINT,
    read_bootstrap_file,
)
from ledgerstone.server.formatting.writing import FIRST_SNAPSHOT, METADATA_DIR
from ledgerstone.storage.checkpoints import read_if_exists
from ledgerstone.storage.filenames import META_PROPERTIES


def check_formatted(fs: Filesystem, config: BrokerConfig) -> None:
    """ConfigError for a node of a quorum whose directory is not formatted: it could have lost its
    disk, and would vote again in an election it has voted in. Also for a single node whose
    directory belongs to a quorum of others."""
    path = config.log_dirs[0]
    if not config.cluster.is_configured:
        _check_alone(fs, config)
    elif not fs.exists(join(path, META_PROPERTIES)):
        reason = (
            "is not formatted. Run `ledgerstone format` first, with the cluster id of the other "
            "nodes. If this node was formatted before, its disk is missing or lost: do not format "
            "it again before you have read docs/quorum.md, Replace a lost disk"
        )
        raise ConfigError("log.dirs", path, reason)


def _check_alone(fs: Filesystem, config: BrokerConfig) -> None:
    path = join(join(config.log_dirs[0], METADATA_DIR), FIRST_SNAPSHOT)
    data = read_if_exists(fs, path)
    for found in () if data is None else control_records(data):
        if isinstance(found.record, VotersRecord):
            others = [node for node in voters_of(found.record).ids if node != config.node_id]
            if others:
                reason = (
                    f"must be set: {config.log_dirs[0]} was formatted for a quorum with "
                    f"{'node' if len(others) == 1 else 'nodes'} {', '.join(map(str, others))}"
                )
                raise ConfigError("process.roles", "", reason)


def read_bootstrap_records(fs: Filesystem, path: str) -> list[MetadataRecord] | None:
    """What the format of a log directory wants the first leader to write; None if it was formatted
    by a start, as a single node's is."""
    name = join(path, BOOTSTRAP_CHECKPOINT)
    data = read_if_exists(fs, name)
    return None if data is None else read_bootstrap_file(name, data)
