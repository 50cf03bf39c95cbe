"""Histories as JSON lines, and the command that checks them."""

from pathlib import Path

import pytest

from ledgerstone.sim.history.__main__ import main
from ledgerstone.sim.history.lines import BadHistory, line_of, lines_of, parse
from ledgerstone.sim.history.operations import (
    Assigned,
    ClientHistory,
    LogRead,
    OffsetCommitted,
    OffsetFetched,
    OpOutcome,
    RecordsRead,
    Seen,
    Sent,
    TopicFacts,
    Trimmed,
    TxnEnded,
)
from ledgerstone.types import TopicPartition

PLACE = TopicPartition("t", 1)
ALL = ClientHistory(
    [
        TopicFacts(topic="t", compacted=True, delete_retention_ms=5),
        Sent(client="p", start_ms=1, end_ms=2, place=PLACE, id="a", outcome=OpOutcome.OK, offset=3),
        TxnEnded(client="p", start_ms=1, end_ms=None, txn="x", commits=False,
                 outcome=OpOutcome.UNKNOWN),
        Assigned(client="c", start_ms=1, end_ms=1, place=PLACE, position=0),
        RecordsRead(client="c", start_ms=1, end_ms=2, place=PLACE, position=0, next_position=4,
               records=(Seen(3, "a"),), committed=True),
        OffsetCommitted(client="c", start_ms=1, end_ms=2, group="g", place=PLACE, offset=4,
                        outcome=OpOutcome.FAILED, txn="x"),
        OffsetFetched(client="c", start_ms=1, end_ms=2, group="g", place=PLACE, offset=-1),
        Trimmed(client="o", start_ms=1, end_ms=2, place=PLACE, offset=2),
        LogRead(client="r", start_ms=9, end_ms=9, place=PLACE, start_offset=0, high_watermark=4,
                records=(Seen(3, "a"),), replica=2, final=False),
    ]
)  # fmt: skip


def test_every_operation_survives_a_line() -> None:
    assert parse(lines_of(ALL)).operations == ALL.operations


def test_a_line_leaves_out_defaults() -> None:
    sent = Sent(
        client="p", start_ms=1, end_ms=2, place=PLACE, id="a", outcome=OpOutcome.OK, offset=3
    )
    assert line_of(sent) == (
        '{"op":"sent","client":"p","start_ms":1,"end_ms":2,"topic":"t","partition":1,'
        '"id":"a","outcome":"ok","offset":3}'
    )


@pytest.mark.parametrize(
    "line",
    [
        '{"op": "send"}',
        '{"op": "sent", "client": "p"}',
        "[]",
        "{",
        '{"op": "sent", "outcome": "?"}',
    ],
)
def test_a_bad_line_is_named(line: str) -> None:
    with pytest.raises(BadHistory, match="line 2"):
        parse([line_of(ALL.operations[0]), line])


def test_the_command_says_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "clients.jsonl", tmp_path / "logs.jsonl"
    first.write_text(
        '{"op":"sent","client":"p","start_ms":1,"end_ms":2,"topic":"t","partition":0,'
        '"id":"a","outcome":"ok","offset":0}\n',
        encoding="utf-8",
    )
    log = (
        '{"op":"log","client":"r","start_ms":9,"end_ms":9,"topic":"t","partition":0,'
        '"start_offset":0,"high_watermark":1,"records":%s}\n'
    )
    second.write_text(log % '[[0,"a"]]', encoding="utf-8")
    assert main([str(first), str(second)]) == 0
    assert capsys.readouterr().out == "1 LogRead, 1 Sent\n0 anomalies in 2 operations\n"
    second.write_text(log % "[]", encoding="utf-8")
    assert main([str(first), str(second)]) == 1
    assert "lost write: a at 0 of [0, 1)" in capsys.readouterr().out
