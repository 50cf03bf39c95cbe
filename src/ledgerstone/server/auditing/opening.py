"""The audit log of a broker that starts, and what of the broker it is tied to. Grade D."""

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.erasure.erasure import Erasure
from ledgerstone.errors import ConfigError, StorageError
from ledgerstone.fs import Filesystem, join
from ledgerstone.server.auditing import redaction, seal_key
from ledgerstone.server.auditing.audit_file import AuditFile, lock_directory, make_durable_dir
from ledgerstone.server.auditing.auditor import Auditor
from ledgerstone.server.auditing.erasure_life import ErasureLife
from ledgerstone.server.auditing.upkeep import Upkeep
from ledgerstone.server.broker import Broker


def open_auditor(config: BrokerConfig, fs: Filesystem, clock: Clock, dice: Dice) -> Auditor:
    """ConfigError where the directory or the key cannot be used."""
    path = config.ledgerstone_audit_dir
    assert path is not None
    try:
        make_durable_dir(fs, path)
        lock = lock_directory(fs, path)
    except (OSError, StorageError) as error:
        raise ConfigError("ledgerstone.audit.dir", path, f"cannot be used: {error}") from error
    try:
        redaction.finish(fs, path)
        file = AuditFile(fs, path, clock, dice, node_id=config.node_id, lock=lock)
        return _audited(config, file, clock, dice)
    except OSError as error:
        lock.release()
        raise ConfigError("ledgerstone.audit.dir", path, f"cannot be used: {error}") from error
    except BaseException:
        lock.release()
        raise


def _audited(config: BrokerConfig, file: AuditFile, clock: Clock, dice: Dice) -> Auditor:
    """OSError, ConfigError."""
    fs, path = file.fs, file.directory
    key_path = config.ledgerstone_audit_key_file or join(path, seal_key.KEY_FILE)
    try:
        secret = seal_key.load_or_create(fs, key_path, dice)
    except (OSError, StorageError) as error:
        reason = f"cannot be used: {error}"
        raise ConfigError("ledgerstone.audit.key.file", key_path, reason) from error
    days = config.ledgerstone_audit_retention_days
    upkeep = Upkeep(file, clock, secret, retention_days=None if days < 0 else days)
    auditor = Auditor(file, clock, upkeep)
    auditor.noted("start", {"node_id": config.node_id})
    return auditor


def attend(broker: Broker, auditor: Auditor) -> None:
    """Ties the audit log to what it hears of, and to the topic it feeds."""
    logins = broker.logins
    logins.on_failure, logins.on_success = auditor.login_failed, auditor.logged_in
    logins.on_expiry = auditor.login_expired

    def wake() -> None:
        broker.may_be_due_sooner = True

    auditor.wake = wake
    _hear_of_erasures(broker, ErasureLife(auditor.write))
    cluster = broker.config.cluster
    if broker.config.ledgerstone_audit_topic_enable and (
        cluster.is_broker or not cluster.is_configured
    ):
        _feed(broker, auditor)


def _hear_of_erasures(broker: Broker, life: ErasureLife) -> None:
    became = broker.erasing.journal.on_change

    def changed(erasure: Erasure) -> None:
        became(erasure)
        life.became(erasure)

    broker.erasing.journal.on_change = changed


def _feed(broker: Broker, auditor: Auditor) -> None:
    from ledgerstone.server.auditing.audit_feed import AuditFeed
    from ledgerstone.server.auditing.audit_topic import AuditTopic
    from ledgerstone.server.erasing.others import OtherBrokers

    config, link, upkeep = broker.config, broker.controller_link, auditor.upkeep
    assert upkeep is not None
    days = config.ledgerstone_audit_retention_days
    topic = AuditTopic(
        image=lambda: link.image,
        partitions=broker.partitions,
        controller=link,
        turn=broker,
        replication_factor=config.ledgerstone_audit_topic_replication_factor,
        retention_days=None if days < 0 else days,
    )
    others = OtherBrokers(
        node_id=config.node_id,
        cluster_id=lambda: broker.log_dirs.metadata.meta.cluster_id or "",
        image=lambda: link.image,
    )
    auditor.feed = AuditFeed(auditor.file, broker.clock, upkeep, topic, others)
