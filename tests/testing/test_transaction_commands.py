"""`ledgerstone transactions` and `produce --transactional-id` on a real broker."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone.cli.main import main
from ledgerstone.client.txn_errors import TransactionError
from ledgerstone.testing.broker import LedgerstoneBroker

Run = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(
    ledgerstone: LedgerstoneBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Run:
    """Runs a command with --json; returns what it printed."""

    def call(*arguments: str, stdin: str = "", fails_with: str = "") -> list[dict[str, Any]]:
        monkeypatch.setenv("LEDGERSTONE_BOOTSTRAP", ledgerstone.bootstrap)
        monkeypatch.setattr(sys, "argv", ["ledgerstone", *arguments, "--json"])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code in (0, None)) == (not fails_with), said.err
        assert fails_with in said.err
        return [json.loads(line) for line in said.out.splitlines()]

    return call


def test_open_transaction_is_listed_described_and_aborted(
    ledgerstone: LedgerstoneBroker, run: Run
) -> None:
    topic = ledgerstone.topic("users")
    none_yet = run("transactions", "list")
    open_txn = ledgerstone.begin("copier")
    open_txn.produce(topic, "a", "1")

    (listed,) = run("transactions", "list", "--state", "Ongoing")
    (described,) = run("transactions", "describe", "copier")
    (found,) = run("transactions", "open", topic)
    hanging = run("transactions", "find-hanging", "--older-than-ms", "0")
    run("transactions", "abort", "copier")

    assert none_yet == []
    assert (listed["transactional_id"], listed["state"]) == ("copier", "Ongoing")
    assert described["partitions"] == [[topic, 0]]
    assert (found["start_offset"], found["producer_id"]) == (0, listed["producer_id"])
    assert hanging == []
    assert run("transactions", "open", topic) == []
    with pytest.raises(TransactionError):
        open_txn.commit()
    run("transactions", "abort", "copier", fails_with="has no open transaction")
    run("transactions", "describe", "nobody", fails_with="is unknown")


def test_looking_creates_no_topic(ledgerstone: LedgerstoneBroker, run: Run) -> None:
    run("transactions", "list")
    run("transactions", "describe", "nobody", fails_with="is unknown")

    names = ledgerstone.on_the_loop(lambda running: list(running.broker.image.topics))
    assert "__transaction_state" not in names


def test_part_of_a_live_transaction_is_not_aborted_by_place(
    ledgerstone: LedgerstoneBroker, run: Run
) -> None:
    topic = ledgerstone.topic("users")
    open_txn = ledgerstone.begin("copier")
    open_txn.produce(topic, "a", "1")
    place = ("transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset")

    run(*place, "0", fails_with="belongs to the transactional id copier")
    run(*place, "7", fails_with="is open from offset 7")
    open_txn.commit()

    assert len(ledgerstone.records(topic)) == 1


def test_lines_are_written_in_one_transaction_or_in_several(
    ledgerstone: LedgerstoneBroker, run: Run
) -> None:
    topic = ledgerstone.topic("users")
    three = "1\n2\n3\n"

    whole = run("produce", topic, "--transactional-id", "cli", stdin=three)
    pairs = run("produce", topic, "--transactional-id", "cli", "--commit-every", "2", stdin=three)
    aborted = run("produce", topic, "--transactional-id", "cli", "--abort", stdin="4\n")

    assert whole[-1] == {"committed": 3, "transactional_id": "cli"}
    assert [each["committed"] for each in pairs if "committed" in each] == [2, 1]
    assert aborted[-1] == {"aborted": 1, "transactional_id": "cli"}
    values = [each.value for each in ledgerstone.records(topic)]
    assert values == [b"1", b"2", b"3"] * 2
