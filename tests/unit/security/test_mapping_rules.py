"""ssl.principal.mapping.rules. The first vectors are those of Kafka's own test."""

import pytest

from ledgerstone.errors import ConfigError
from ledgerstone.security.mapping_rules import NoMatchingRule, parse_mapping_rules

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_names_are_mapped_as_kafka_maps_them(name: str, principal: str) -> None:
    assert parse_mapping_rules(KAFKAS).name_of(name) == principal


@pytest.mark.parametrize(
    ("rules", "name", "principal"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", "CN=a"),
        (" , DEFAULT ,", "CN=a", "CN=a"),
        (r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT", r"CN=Tkac\, Adam,OU=ITZ", r"Tkac\, Adam"),
        (r"RULE:CN=(.*)\/x/$1\/y/", "CN=a/x", "a/y"),
        ("RULE:CN=(.*)/$2-$1/", "CN=a", "$2-a"),
        (r"RULE:CN=(.*)/\$1/", "CN=a", "$1"),
        ("RULE:.*/x/", "CN=a", "xx"),
    ],
)
def test_the_grammar_is_kafkas(rules: str, name: str, principal: str) -> None:
    assert parse_mapping_rules(rules).name_of(name) == principal


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULT/L",
        "DEFAULT/",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "RULE:",
        "RULE:a/b/LU",
        "RULE:a/b/l",
        "RULE:(/b/",
        r"RULE:\p{L}/b/",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_mapping_rules(rules)

    assert raised.value.key == "ssl.principal.mapping.rules"


def test_a_name_without_a_rule_is_nobody() -> None:
    rules = parse_mapping_rules("RULE:^CN=(.*)$/$1/")

    with pytest.raises(NoMatchingRule, match="O=x"):
        rules.name_of("O=x")
