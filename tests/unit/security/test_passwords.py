"""Name and password in one, against users of PLAIN and keys of SCRAM."""

import pytest

from ledgerstone.security import passwords as module
from ledgerstone.security.passwords import (
    MOST_REMEMBERED,
    REMEMBERED_MS,
    NamedPassword,
    Passwords,
)
from ledgerstone.security.plain import PlainUsers
from ledgerstone.security.scram_keys import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramLooks,
    ScramMechanism,
    new_credential,
)
from ledgerstone.sim.dice import SeededDice

BOTH = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


class Users:
    def __init__(self) -> None:
        self.known: dict[tuple[int, str], ScramCredential] = {}

    def add(self, name: str, password: str, mechanism: ScramMechanism) -> None:
        made = new_credential(mechanism, password, SeededDice(len(self.known)), MIN_ITERATIONS)
        self.known[mechanism, name] = made

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self.known.get((mechanism, name))

    def usual_looks(self, mechanism: ScramMechanism) -> ScramLooks:
        return ScramLooks(MIN_ITERATIONS)


@pytest.fixture
def users() -> Users:
    users = Users()
    users.add("ann", "tea", ScramMechanism.SCRAM_SHA_512)
    return users


@pytest.fixture
def passwords(users: Users) -> Passwords:
    plain = [PlainUsers({"bob": "milk"}, b"key"), PlainUsers({"bob": "cream"}, b"key")]
    return Passwords(plain=plain, mechanisms=BOTH, scram_users=users, secret=b"secret")


def is_right(passwords: Passwords, name: str, password: str) -> bool:
    given = NamedPassword(name, password.encode())
    return passwords.is_plain_user(given) or passwords.check(given).is_right()


@pytest.mark.parametrize(
    ("name", "password", "expected"),
    [
        ("ann", "tea", True),
        ("ann", "Tea", False),
        ("Ann", "tea", False),
        ("bob", "milk", True),
        ("bob", "cream", True),
        ("bob", "tea", False),
        ("nobody", "tea", False),
    ],
)
def test_password_fits_its_user(
    passwords: Passwords, name: str, password: str, expected: bool
) -> None:
    assert is_right(passwords, name, password) is expected


def test_unknown_user_costs_what_a_known_one_does(
    passwords: Passwords, monkeypatch: pytest.MonkeyPatch
) -> None:
    work: list[tuple[ScramMechanism, int]] = []

    def salted(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> bytes:
        work.append((mechanism, iterations))
        return b""

    monkeypatch.setattr(module, "salt_password", salted)
    is_right(passwords, "ann", "wrong")
    known, work[:] = list(work), []
    is_right(passwords, "nobody", "wrong")

    assert work == known == [(each, MIN_ITERATIONS) for each in BOTH]


def test_right_password_is_remembered_until_its_time_or_another_one(
    passwords: Passwords, users: Users
) -> None:
    given = NamedPassword("ann", b"tea")
    passwords.remember(given, 0)

    assert passwords.is_remembered(given, REMEMBERED_MS - 1)
    assert not passwords.is_remembered(NamedPassword("ann", b"tee"), 0)
    assert not passwords.is_remembered(given, REMEMBERED_MS)
    users.add("ann", "coffee", ScramMechanism.SCRAM_SHA_512)
    assert not passwords.is_remembered(given, 1)
    users.known.clear()
    assert not passwords.is_remembered(given, 1)


def test_name_and_password_are_told_apart(passwords: Passwords) -> None:
    assert passwords.key_of(NamedPassword("a", b"b")) != passwords.key_of(NamedPassword("", b"ab"))
    assert b"tea" not in passwords.key_of(NamedPassword("ann", b"tea"))
    assert "tea" not in repr(NamedPassword("ann", b"tea"))


def test_what_is_remembered_is_bounded(passwords: Passwords) -> None:
    for number in range(MOST_REMEMBERED + 1):
        passwords.remember(NamedPassword(str(number), b"x"), 0)

    assert not passwords.is_remembered(NamedPassword("0", b"x"), 0)
    assert passwords.is_remembered(NamedPassword("1", b"x"), 0)
