"""Which names a topic may have, and which topics are the cluster's own. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import InvalidTopic, PolicyViolation
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
# Differs from Kafka, which has no such topic: the journal of erasures.
ERASURES: Final = "__erasures"
# Differs from Kafka, too: the audit logs of all nodes.
AUDIT: Final = "__audit"
INTERNAL_TOPICS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE, ERASURES, AUDIT)
# What proves something: the brokers alone write it, and nobody changes what becomes of it.
EVIDENCE: Final = {
    ERASURES: "the journal of erasures and their receipts",
    AUDIT: "the audit log of the cluster",
}

MAX_NAME_LENGTH: Final = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """InvalidTopic says what is wrong with the name; directories and metrics are named after it."""
    if not name:
        raise InvalidTopic("a topic's name must not be empty")
    if name in (".", ".."):
        raise InvalidTopic(f"a topic's name must not be {name!r}")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(
            f"topic name {name[:40]!r}… has {len(name)} characters, at most {MAX_NAME_LENGTH}"
        )
    if _LEGAL.fullmatch(name) is None:
        raise InvalidTopic(
            f"topic name {name!r}: only ASCII letters, digits, '.', '_' and '-' are allowed"
        )


def check_is_not_evidence(name: str, what: str) -> None:
    """PolicyViolation for the journal of erasures, which proves deletes, and the audit log: no
    client may change what becomes of them. `what` is refused, as in "cannot be deleted"."""
    if name in EVIDENCE:
        raise PolicyViolation(
            f"{name} {what}: {name} is {EVIDENCE[name]}, and the broker alone keeps it"
        )


def collision_key(name: str) -> str:
    """Equal for names that metrics cannot tell apart, since they turn dots into underscores."""
    return name.replace(".", "_")


def auto_creation(names: Iterable[str], config: BrokerConfig) -> CreateTopicsRequest:
    """What a broker asks for when topics are used that nobody created; whether that is allowed was
    asked before."""
    topics = [_auto_created_topic(name, config) for name in dict.fromkeys(names)]
    return CreateTopicsRequest(topics=topics)


def _auto_created_topic(name: str, config: BrokerConfig) -> CreateTopicsRequestTopic:
    if name == CONSUMER_OFFSETS:
        return _internal_topic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
                **_never_unclean(config.offsets_topic_replication_factor),
            },
        )
    if name == TRANSACTION_STATE:
        return _internal_topic(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return CreateTopicsRequestTopic(name=name, num_partitions=-1, replication_factor=-1)


def _never_unclean(replication_factor: int) -> dict[str, str]:
    """Differs from Kafka, which leaves it to the broker's setting: an unclean leader of replicated
    offsets would lose commits that were answered."""
    return {"unclean.leader.election.enable": "false"} if replication_factor > 1 else {}


def _internal_topic(
    name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
) -> CreateTopicsRequestTopic:
    return CreateTopicsRequestTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreateTopicsRequestConfig(key, value) for key, value in configs.items()],
    )
