"""What Ledgerstone does beyond Kafka, as Kafka's rights. Pure.

No operations of our own: `kafka-acls` gives and takes them all.
"""

import enum
from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Rights


class Act(enum.Enum):
    ERASE = "ask for an erasure, or call it off"
    SEARCH = "search a topic for a key, look at records, dump them"
    SEE_TOPIC = "erasures, receipts, cleaning and anatomy of a topic"
    PRODUCE = "write records"
    COMPACT = "compact now"
    GIVE_EVIDENCE = "say what became of an erasure elsewhere"
    SEE_GROUP = "a group, and what it has missed"
    ABORT = "abort a hanging transaction"
    MOVE_CLOCK = "move the virtual clock"
    SEE_METRICS = "metrics of the broker"
    AUDIT = "read the audit log"


class _Need(NamedTuple):
    operation: AclOperation
    resource_type: AclResourceType
    # The resource, where the act itself names none.
    name: str | None = None


_NEEDS: Final[Mapping[Act, _Need]] = {
    Act.ERASE: _Need(AclOperation.DELETE, AclResourceType.TOPIC),
    Act.SEARCH: _Need(AclOperation.READ, AclResourceType.TOPIC),
    Act.SEE_TOPIC: _Need(AclOperation.DESCRIBE, AclResourceType.TOPIC),
    Act.PRODUCE: _Need(AclOperation.WRITE, AclResourceType.TOPIC),
    Act.COMPACT: _Need(AclOperation.ALTER, AclResourceType.TOPIC),
    Act.GIVE_EVIDENCE: _Need(AclOperation.WRITE, AclResourceType.TOPIC, "__erasures"),
    Act.SEE_GROUP: _Need(AclOperation.DESCRIBE, AclResourceType.GROUP),
    Act.ABORT: _Need(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME),
    Act.MOVE_CLOCK: _Need(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME),
    Act.SEE_METRICS: _Need(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME),
}


def may_act(rights: Rights | None, act: Act, name: str = "") -> bool:
    """`name` is the topic or the group. Without an authorizer everybody may; the audit log is for
    super users alone."""
    if rights is None:
        return True
    if act is Act.AUDIT:
        return rights.is_super
    need = _NEEDS[act]
    return rights.may(need.operation, need.resource_type, need.name or name)
