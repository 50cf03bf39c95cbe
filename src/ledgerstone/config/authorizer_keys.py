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
        "Directory of the audit log: changes, before they are made, and denials. Unset: none is "
        "kept.",
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
