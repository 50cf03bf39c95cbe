"""Opens every log directory of a broker at start. Grade D.

As in Kafka: a directory that the disk refuses is offline and the others start, but the one of the
metadata log must open. Directories that disagree about their cluster or node, or share an id, are a
mistake in the settings, and the start is refused.
"""

import logging
from typing import Final

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import ConfigError, StorageError
from ledgerstone.fs import Filesystem, join
from ledgerstone.server.formatting.writing import METADATA_DIR
from ledgerstone.server.housekeeping.disk_watch import probe
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.storage.log_dirs import LogDirs, OfflineDir, is_full
from ledgerstone.uuid_text import uuid_to_text

_LOG: Final = logging.getLogger(__name__)


def open_log_dirs(
    config: BrokerConfig, fs: Filesystem, clock: Clock, dice: Dice, *, boot_id: str | None
) -> LogDirs:
    opening = _Opening(config, fs, clock, dice, boot_id)
    try:
        return opening.run()
    except BaseException:
        for each in opening.opened:
            each.lock.release()
        raise


class _Opening:
    """One start's work; `opened` has what must be unlocked if it fails."""

    def __init__(
        self, config: BrokerConfig, fs: Filesystem, clock: Clock, dice: Dice, boot_id: str | None
    ) -> None:
        self._config = config
        self._fs = fs
        self._clock = clock
        self._dice = dice
        self._boot_id = boot_id
        self.opened: list[LogDir] = []

    def run(self) -> LogDirs:
        config = self._config
        is_cluster = config.cluster.is_configured
        metadata_path = config.cluster.metadata_log_dir
        # First: a new directory beside it gets its cluster id.
        metadata = self._open(metadata_path, None)
        log_dirs = LogDirs(
            metadata=metadata,
            online=[],
            may_fail=is_cluster or len(config.log_dirs) > 1,
            fails_when_full=is_cluster,
        )
        for path in config.log_dirs:
            if _is_same(path, metadata_path):
                log_dirs.online.append(metadata)
                continue
            try:
                log_dir = self._open(path, metadata.meta.cluster_id)
            except ConfigError as error:
                cause = error.__cause__
                if cause is None or (is_full(cause) and not is_cluster):
                    raise
                _LOG.error("log directory is offline path=%s reason=%s", path, cause)
                log_dirs.offline.append(OfflineDir(path, None, str(cause)))
                continue
            self._check_beside(log_dir, metadata)
            log_dirs.online.append(log_dir)
        if not log_dirs.online:
            paths = ", ".join(config.log_dirs)
            reason = f"none of the specified log dirs from {paths} can be created or validated"
            raise ConfigError("log.dirs", paths, reason)
        log_dirs.listen_to_failures()
        return log_dirs

    def _open(self, path: str, cluster_id: str | None) -> LogDir:
        config, fs = self._config, self._fs
        try:
            if fs.exists(path):
                # Before anything is changed, above all the clean marker removed.
                probe(fs, path)
            log_dir = open_log_dir(
                fs,
                self._clock,
                self._dice,
                path,
                node_id=config.node_id,
                cluster_id=cluster_id,
                boot_id=self._boot_id,
                is_only_replica=not config.cluster.is_configured,
                producer_id_expiration_ms=config.producer_id_expiration_ms,
            )
        except OSError as error:
            raise ConfigError("log.dirs", path, f"cannot be used: {error}") from error
        self.opened.append(log_dir)
        _LOG.info(
            "log directory opened path=%s cluster_id=%s clean=%s",
            path,
            log_dir.meta.cluster_id,
            log_dir.remembered.clean,
        )
        return log_dir

    def _check_beside(self, log_dir: LogDir, metadata: LogDir) -> None:
        """What Kafka refuses about several directories."""
        for other in self.opened:
            directory_id = log_dir.meta.directory_id
            if other is not log_dir and other.meta.directory_id == directory_id is not None:
                raise StorageError(
                    f"{log_dir.path} and {other.path} have the same directory id "
                    f"{uuid_to_text(directory_id)}: one is a copy of the other. Remove "
                    "directory.id from the meta.properties of the new one"
                )
        stranger = join(log_dir.path, METADATA_DIR)
        if self._fs.exists(stranger):
            raise StorageError(
                f"Found unexpected metadata location in data directory {stranger} (the configured "
                f"metadata directory is {metadata.path}): set metadata.log.dir to where it is"
            )


def _is_same(path: str, other: str) -> bool:
    return path.rstrip("/") == other.rstrip("/")
