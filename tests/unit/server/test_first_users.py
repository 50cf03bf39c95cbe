"""`--add-scram`: what Kafka's tool takes is taken, and nothing that was refused is repeated."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import FormatRefused
from ledgerstone.security.scram_keys import ScramMechanism, credential_of, salt_password
from ledgerstone.server.formatting.first_users import parse_first_users
from ledgerstone.sim.dice import SeededDice

SALT = b"0123456789abcdef"
SALT_TEXT = base64.b64encode(SALT).decode()
SALTED = salt_password(ScramMechanism.SCRAM_SHA_256, b"secret", SALT, 4096)


def users(*given: str, level: int = 30) -> list[tuple[str, int, bytes, int]]:
    records = parse_first_users(given, level, SeededDice("salt"))
    return [(each.name, each.mechanism, each.stored_key, each.iterations) for each in records]


@pytest.mark.parametrize(
    "text",
    [
        f"SCRAM-SHA-256=[name=alice,password=secret,salt={SALT_TEXT}]",
        f'SCRAM-SHA-256=[name="alice",password="secret",salt="{SALT_TEXT}",iterations=4096]',
        f" SCRAM-SHA-256 = [ name = alice , password = secret , salt = {SALT_TEXT} ] ",
        f"SCRAM-SHA-256=[name=alice,salt={SALT_TEXT},"
        f"saltedpassword={base64.b64encode(SALTED).decode()}]",
    ],
)
def test_user_is_the_same_however_it_is_written(text: str) -> None:
    expected = credential_of(ScramMechanism.SCRAM_SHA_256, SALTED, SALT, 4096)

    assert users(text) == [("alice", 1, expected.stored_key, 4096)]


def test_one_user_may_have_both_mechanisms() -> None:
    made = users("SCRAM-SHA-256=[name=a,password=p]", "SCRAM-SHA-512=[name=a,password=p]")

    assert [each[1] for each in made] == [1, 2]


@pytest.mark.parametrize(
    "texts",
    [
        ("hush",),
        ("SCRAM-SHA-1=[name=a,password=hush]",),
        ("SCRAM-SHA-256=[password=hush]",),
        ("SCRAM-SHA-256=[name=,password=hush]",),
        ("SCRAM-SHA-256=[name=a]",),
        ("SCRAM-SHA-256=[name=a,password=]",),
        ("SCRAM-SHA-256=[name=a,password=hush,saltedpassword=hush]",),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aHVzaA==]",),
        (f"SCRAM-SHA-256=[name=a,salt={SALT_TEXT},saltedpassword=aHVzaA==]",),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=4095]",),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=16385]",),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=x]",),
        ("SCRAM-SHA-256=[name=a,password=hush,salt=hush!]",),
        ("SCRAM-SHA-256=[name=a,password=hush,other=x]",),
        ("SCRAM-SHA-256=[name=a,name=b,password=hush]",),
        ("SCRAM-SHA-256=[name=a,password=hush]", "SCRAM-SHA-256=[name=a,password=hush]"),
    ],
)
def test_what_makes_no_user_is_refused_and_not_repeated(texts: tuple[str, ...]) -> None:
    with pytest.raises(FormatRefused) as refused:
        users(*texts)

    assert "--add-scram" in str(refused.value)
    assert "hush" not in str(refused.value)


def test_cluster_of_an_old_release_has_no_users() -> None:
    with pytest.raises(FormatRefused, match=r"metadata\.version"):
        users("SCRAM-SHA-256=[name=a,password=p]", level=10)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        users(f"SCRAM-SHA-256=[{text}]")
    except FormatRefused as refused:
        assert "--add-scram" in str(refused)  # noqa: PT017
