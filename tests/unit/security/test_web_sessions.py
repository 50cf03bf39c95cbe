"""Sessions of the page: how long they count, and what ends them."""

from ledgerstone.security.principal import Principal
from ledgerstone.security.web_sessions import (
    IDLE_MS,
    LONGEST_MS,
    MOST_OF_ONE,
    MOST_SESSIONS,
    WebSessions,
    form_secret,
)

ANN = Principal("User", "ann")


def test_session_is_found_by_its_secret_only() -> None:
    sessions = WebSessions()
    session = sessions.open("secret", ANN, b"", 0)

    assert sessions.find("secret", 1) is session
    assert sessions.find("Secret", 1) is None
    assert "secret" not in repr(vars(sessions))


def test_session_ends_when_it_is_not_used() -> None:
    sessions = WebSessions()
    session = sessions.open("secret", ANN, b"", 0)

    assert sessions.find("secret", IDLE_MS - 1) is session
    assert sessions.find("secret", IDLE_MS) is None
    assert session.is_over
    assert len(sessions) == 0


def test_session_ends_after_half_a_day_however_much_it_is_used() -> None:
    sessions = WebSessions()
    session = sessions.open("secret", ANN, b"", 0)
    for now_ms in range(0, LONGEST_MS, IDLE_MS // 2):
        assert sessions.find("secret", now_ms) is session
        session.used_ms = now_ms

    assert sessions.find("secret", LONGEST_MS) is None


def test_oldest_of_one_user_ends_for_a_new_one_and_others_stay() -> None:
    sessions = WebSessions()
    other = sessions.open("other", Principal("User", "bob"), b"", 0)
    first = sessions.open("0", ANN, b"", 0)
    for number in range(1, MOST_OF_ONE + 1):
        sessions.open(str(number), ANN, b"", number)

    assert first.is_over
    assert not other.is_over
    assert len(sessions) == MOST_OF_ONE + 1


def test_number_of_sessions_is_bounded() -> None:
    sessions = WebSessions()
    for number in range(MOST_SESSIONS + 10):
        sessions.open(str(number), Principal("User", str(number)), b"", 0)

    assert len(sessions) == MOST_SESSIONS


def test_secret_of_forms_is_of_one_session_and_does_not_tell_its_own() -> None:
    assert form_secret("a") != form_secret("b")
    assert "abcdef" not in form_secret("abcdef")
