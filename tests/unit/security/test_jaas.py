"""The line of JAAS: read as Kafka reads it, and never shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import ConfigError
from ledgerstone.security.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas

KEY = "listener.name.x.plain.sasl.jaas.config"


def test_users_and_the_brokers_own_name_are_read() -> None:
    text = f"""{PLAIN_MODULE} required
        username="broker" password='b "1"'  // its own
        user_alice="a\\"b\\\\c\\n" /* others */ user_bob-2="x=;y" user_=nobody plain=word;"""

    jaas = parse_jaas(KEY, text)

    assert jaas.module == PLAIN_MODULE
    assert jaas.options["username"] == "broker"
    assert jaas.options["password"] == 'b "1"'
    assert jaas.options["plain"] == "word"
    assert jaas.users == {"alice": 'a"b\\c\n', "bob-2": "x=;y"}
    assert "broker" not in repr(jaas)


def test_module_without_options_is_enough() -> None:
    assert parse_jaas(KEY, f"{SCRAM_MODULE} REQUIRED;").options == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "module flag"),
        ("com.sun.security.auth.module.JndiLoginModule required;", "must name one of"),
        (f"{PLAIN_MODULE} perhaps;", "after the module"),
        (f"{PLAIN_MODULE} required", "module flag"),
        (f'{PLAIN_MODULE} required user_a="hush"', "must end"),
        (f"{PLAIN_MODULE} required user_a;", "name=value"),
        (f"{PLAIN_MODULE} required user_a=12hush;", "in quotes"),
        (f'{PLAIN_MODULE} required user_a="hush;', "character"),
        (f'{PLAIN_MODULE} required user_a="hush" user_a="hush";', "twice"),
        (f'{PLAIN_MODULE} required a="hush"; {SCRAM_MODULE} required;', "one module"),
        (f'{PLAIN_MODULE} required a="hu\nsh";', "character"),
        (f"{PLAIN_MODULE} required = = =;", "name=value"),
    ],
)
def test_what_cannot_be_read_is_refused_and_not_shown(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_jaas(KEY, text)

    assert reason in refused.value.reason
    assert KEY in str(refused.value)
    assert "hush" not in str(refused.value)


@given(st.dictionaries(st.from_regex(r"[a-z]{1,8}", fullmatch=True), st.text(max_size=20)))
def test_any_value_comes_back_from_its_quotes(options: dict[str, str]) -> None:
    escaped = {
        key: value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for key, value in options.items()
    }
    text = " ".join(f'{key}="{value}"' for key, value in escaped.items())

    assert parse_jaas(KEY, f"{PLAIN_MODULE} required {text};").options == options


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_jaas(KEY, f"{PLAIN_MODULE} required {text}")
    except ConfigError as refused:
        assert "[hidden]" in str(refused)  # noqa: PT017
