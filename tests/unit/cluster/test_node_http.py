"""Where the HTTP API of another node is."""

import pytest

from ledgerstone.cluster.node_http import get_json, reachable


@pytest.mark.parametrize(
    ("listener", "host", "found"),
    [
        ("10.0.0.2:9093", "10.0.0.2", "10.0.0.2:9093"),
        ("0.0.0.0:9093", "10.0.0.2", "10.0.0.2:9093"),
        ("[::]:9093", "fd00::2", "[fd00::2]:9093"),
        ("127.0.0.1:9093", "127.0.0.1", "127.0.0.1:9093"),
        ("127.0.0.1:9093", "localhost", "127.0.0.1:9093"),
        # Of its own machine, not of ours.
        ("127.0.0.1:9093", "10.0.0.2", None),
        ("localhost:9093", "broker-2.example.org", None),
        ("[::1]:9093", "10.0.0.2", None),
    ],
)
def test_address_is_one_that_this_machine_reaches(
    listener: str, host: str, found: str | None
) -> None:
    assert reachable(listener, host) == found


def test_node_that_does_not_answer_says_nothing() -> None:
    assert get_json("127.0.0.1:1", "cluster") is None
    assert get_json("nowhere.invalid:port", "cluster") is None
