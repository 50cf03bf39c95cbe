"""The broker keys of ACLs. Pure. Names, types and defaults are Kafka's."""

from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.config.broker_key import BrokerKey, flag_key, text_key
from ledgerstone.config.setting import ConfigType
from ledgerstone.errors import ConfigError

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

AUTHORIZER_KEYS: Final = (
    BrokerKey(
        name="authorizer.class.name",
        kind=ConfigType.STRING,
        default="",
        doc=f"{STANDARD_AUTHORIZER} has every request checked against the ACLs; unset or empty: "
        "everybody may do everything.",
        one_of=("", STANDARD_AUTHORIZER),
    ),
    text_key(
        "super.users",
        "",
        "Principals that may do everything, separated by semicolons: User:alice;User:bob.",
    ),
    flag_key(
        "allow.everyone.if.no.acl.found",
        False,
        "Whether a resource that no ACL speaks of is open to everybody.",
    ),
    text_key(
        "ledgerstone.audit.dir",
        None,
        "Directory of the audit log: changes, before they are made, logins and denials. Unset: "
        "none is kept.",
    ),
    text_key(
        "ledgerstone.audit.key.file",
        None,
        "File with the secret that seals of the audit log are made with; by default, audit.key in "
        "ledgerstone.audit.dir.",
    ),
    BrokerKey(
        name="ledgerstone.audit.retention.days",
        kind=ConfigType.INT,
        default=400,
        at_least=-1,
        doc="How long files of the audit log and records of __audit are kept; -1: for ever.",
    ),
    flag_key(
        "ledgerstone.audit.topic.enable",
        False,
        "Whether the audit logs of all nodes are also kept in the topic __audit.",
    ),
    BrokerKey(
        name="ledgerstone.audit.topic.replication.factor",
        kind=ConfigType.SHORT,
        default=1,
        cluster_default=3,
        at_least=1,
        doc="Replicas of __audit; 3 on a node with process.roles.",
    ),
    text_key(
        "early.start.listeners",
        None,
        "No effect: listeners open once the ACLs are known, those of controllers before.",
    ),
)


def parse_super_users(given: Mapping[str, Any]) -> tuple[str, ...]:
    """A principal without a kind would match nobody."""
    text = given.get("super.users", "")
    found = tuple(each.strip() for each in text.split(";") if each.strip())
    for each in found:
        if ":" not in each:
            raise ConfigError("super.users", each, f"has no kind; write User:{each}")
    return found
