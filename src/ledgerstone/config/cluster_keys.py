"""The broker keys of roles, the metadata quorum and broker life. Pure; `cluster` gives them types.

Names, types, defaults and ranges are Kafka's. None of them has to be set for a single node.
"""

from typing import Final

from ledgerstone.config.broker_key import (
    BrokerKey,
    flag_key,
    int_key,
    long_key,
    text_key,
)
from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.config.setting import ConfigType
from ledgerstone.types import INT64_MAX


def _list(name: str, doc: str, one_of: tuple[str, ...] = ()) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.LIST, default=(), doc=doc, one_of=one_of)


_ROLES: Final = (
    _list(
        "process.roles",
        "broker, controller, or both. Unset: a single node that needs neither a quorum nor "
        "`ledgerstone format`.",
        one_of=("broker", "controller"),
    ),
    _list(
        "controller.listener.names",
        "Names of the listeners that controllers serve. Every node connects to the first one.",
    ),
    text_key(
        "inter.broker.listener.name",
        None,
        "The listener that brokers use among themselves. By default, the one that is named as "
        "security.inter.broker.protocol says.",
    ),
    text_key(
        "listener.security.protocol.map",
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener: name:protocol, comma separated.",
    ),
    BrokerKey(
        name="security.inter.broker.protocol",
        kind=ConfigType.STRING,
        default="PLAINTEXT",
        one_of=tuple(SecurityProtocol.__members__),
        doc="The listener that brokers use among themselves is the one of this name, unless "
        "inter.broker.listener.name is set.",
    ),
)

_QUORUM: Final = (
    _list(
        "controller.quorum.voters",
        "The voters of a static quorum, id@host:port, comma separated, the same on every node. "
        "Leave it empty where voters are set by `ledgerstone format`.",
    ),
    _list(
        "controller.quorum.bootstrap.servers",
        "Controllers to ask for the leader of the quorum: host:port, comma separated.",
    ),
    int_key(
        "controller.quorum.election.timeout.ms",
        1000,
        "How long a voter waits for a leader before it stands for election.",
        at_least=0,
    ),
    int_key(
        "controller.quorum.fetch.timeout.ms",
        2000,
        "How long a follower goes without a successful fetch before it starts an election. A "
        "leader resigns after one and a half times as long without fetches from a majority.",
        at_least=0,
    ),
    int_key(
        "controller.quorum.election.backoff.max.ms",
        1000,
        "Longest time that the successors of a resigned leader wait for each other.",
        at_least=0,
    ),
    int_key(
        "controller.quorum.append.linger.ms",
        25,
        "No effect: records are appended at once, and one sync covers all that have arrived.",
        at_least=0,
    ),
    int_key(
        "controller.quorum.request.timeout.ms",
        2000,
        "How long a request to another voter waits for its answer.",
        at_least=0,
    ),
    int_key(
        "controller.quorum.retry.backoff.ms",
        20,
        "Pause after a failed request to another voter.",
        at_least=0,
    ),
    int_key(
        "controller.quorum.fetch.max.bytes",
        1_048_576,
        "Largest answer to a fetch of metadata, but at least one batch.",
    ),
    int_key(
        "controller.quorum.fetch.snapshot.max.bytes",
        1_048_576,
        "Largest part of a metadata snapshot in one answer.",
    ),
    flag_key(
        "controller.quorum.auto.join.enable",
        False,
        "Whether a controller outside the voter set adds itself. It first removes a voter that has "
        "its id and another directory.",
    ),
)

_METADATA_LOG: Final = (
    text_key(
        "metadata.log.dir",
        None,
        "Directory of the metadata log. By default, the first of log.dirs.",
    ),
    int_key(
        "metadata.log.segment.bytes",
        1_073_741_824,
        "Largest segment of the metadata log.",
        at_least=8_388_608,
    ),
    long_key(
        "metadata.log.segment.ms",
        604_800_000,
        "Age after which a segment of the metadata log is rolled.",
    ),
    long_key(
        "metadata.log.max.record.bytes.between.snapshots",
        20_971_520,
        "Size of new metadata records after which a snapshot is made.",
    ),
    long_key(
        "metadata.log.max.snapshot.interval.ms",
        3_600_000,
        "Time after which a snapshot is made if there are new records; 0: never by time.",
        at_least=0,
    ),
    long_key(
        "metadata.max.retention.bytes",
        104_857_600,
        "Size of metadata log and snapshots above which the oldest are deleted. The newest "
        "snapshot always stays; -1: no limit.",
        at_least=-1,
    ),
    long_key(
        "metadata.max.retention.ms",
        604_800_000,
        "Age above which metadata snapshots and segments are deleted; the newest snapshot always "
        "stays. -1: no limit.",
        at_least=-1,
    ),
    int_key(
        "metadata.max.idle.interval.ms",
        500,
        "How often the active controller writes a no-op record while nothing changes, so that "
        "nodes can see how far behind they are; 0: never. A single node writes none.",
        at_least=0,
    ),
)

_BROKER_LIFE: Final = (
    int_key(
        "broker.heartbeat.interval.ms",
        2000,
        "How often a broker sends a heartbeat to the active controller.",
    ),
    int_key(
        "broker.session.timeout.ms",
        9000,
        "How long a broker may be silent before the active controller fences it. Set it on "
        "controllers.",
    ),
    int_key(
        "ledgerstone.broker.disconnect.grace.ms",
        3000,
        "How long the active controller waits for a broker whose connection broke, before it "
        "fences it. A process that was killed is not waited for until its session ends. Longer "
        "than broker.heartbeat.interval.ms; at most broker.session.timeout.ms.",
    ),
    int_key(
        "initial.broker.registration.timeout.ms",
        60_000,
        "How long a starting broker tries to register before it gives up and exits.",
    ),
    flag_key(
        "controlled.shutdown.enable",
        True,
        "Whether a stopping broker first hands over the partitions it leads.",
    ),
    long_key(
        "server.max.startup.time.ms",
        INT64_MAX,
        "How long a start may take before it is given up.",
        at_least=0,
    ),
    flag_key(
        "auto.leader.rebalance.enable",
        True,
        "Whether the active controller gives partitions back to their preferred leaders.",
    ),
    long_key(
        "leader.imbalance.check.interval.seconds",
        300,
        "How often the active controller looks for partitions that their preferred leader does not "
        "lead.",
    ),
    long_key(
        "unclean.leader.election.interval.ms",
        300_000,
        "How often the active controller looks for leaderless partitions whose topic allows "
        "unclean elections.",
    ),
)

CLUSTER_KEYS: Final = (*_ROLES, *_QUORUM, *_METADATA_LOG, *_BROKER_LIFE)
