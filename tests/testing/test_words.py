"""The pure parts: settings as tests write them, and findings as failed tests show them."""

import pytest

from ledgerstone.testing.findings import difference, lines_of, show
from ledgerstone.testing.settings import Setting, as_configs, parse_lines
from ledgerstone.testing.waiting import WaitedInVain, wait_until


def test_settings_become_kafka_keys_and_texts() -> None:
    given: dict[str, Setting] = {
        "delete_retention_ms": 5,
        "log.cleaner.enable": False,
        "hold_groups": ["a", "b"],
    }

    assert as_configs(given) == {
        "delete.retention.ms": "5",
        "log.cleaner.enable": "false",
        "hold.groups": "a,b",
    }


def test_ini_lines_are_keys_and_values() -> None:
    assert parse_lines(["num_partitions = 3", "a.b=c=d"]) == {"num.partitions": "3", "a.b": "c=d"}


@pytest.mark.parametrize("line", ["num.partitions", "=3", ""])
def test_ini_line_that_is_no_setting_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="is not key=value"):
        parse_lines([line])


def test_long_bytes_are_cut_and_say_how_long_they_are() -> None:
    assert show(b"v" * 61) == f"{b'v' * 60!r}... (61 bytes)"
    assert show(b"v" * 60) == repr(b"v" * 60)
    assert show(None) == "null"


def test_long_lists_are_cut_and_say_how_many_are_left() -> None:
    lines = lines_of(str(number) for number in range(25)).splitlines()

    assert (len(lines), lines[0], lines[-1]) == (21, "  0", "  ... and 5 more")


def test_equal_states_differ_in_nothing() -> None:
    assert difference({b"a": b""}, {b"a": b""}) == []


def test_waiting_ends_with_the_first_true_answer() -> None:
    answers = iter([None, 0, "yes"])

    assert wait_until(lambda: next(answers), "it is so") == "yes"


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(WaitedInVain, match=r"waited 0 s in vain until it is so; last seen: no"):
        wait_until(lambda: False, "it is so", 0, lambda: "no")
