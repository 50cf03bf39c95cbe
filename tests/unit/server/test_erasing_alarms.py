"""Erasures that may be late: told early, with the true reason, in the log, the API and /readyz."""

import logging

import pytest

from ledgerstone.erasure.erasure import Stage
from ledgerstone.server.http.monitor import readiness, samples
from tests.unit.server.asks import commit_offset, exposition
from tests.unit.server.erasing_kit import (
    DAY_MS,
    HOUR_MS,
    KEY,
    TOPIC,
    ErasingMachine,
    alter_topic,
    machine_with,
)

MINUTE_MS = 60_000


def alarms(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        each.getMessage()
        for each in caplog.records
        if each.name == "ledgerstone.server.erasing.next_steps" and each.levelno >= logging.WARNING
    ]


def with_residue(within_ms: int) -> tuple[ErasingMachine, str]:
    """An erasure whose key somebody wrote into a file beside the logs."""
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    machine.fs.open("/data/notes.txt", create=True).pwrite(b"to do: " + KEY, 0)
    erasure_id = machine.erase(within_ms=within_ms)
    machine.run(erasure_id, until=Stage.UNLINKED)
    machine.settle()
    return machine, erasure_id


def pass_time(machine: ErasingMachine, ms: int, step_ms: int = 5 * MINUTE_MS) -> None:
    for _ in range(0, ms, step_ms):
        machine.clock.advance(ms=step_ms)
        machine.broker.clock_moved()
        machine.settle()


def test_residue_is_at_risk_weeks_before_the_deadline(caplog: pytest.LogCaptureFixture) -> None:
    machine, erasure_id = with_residue(within_ms=30 * DAY_MS)
    at_first = readiness(machine.broker)

    pass_time(machine, HOUR_MS + 10 * MINUTE_MS)
    later = readiness(machine.broker)
    shown = machine.call("GET", f"erasures/{erasure_id}")

    assert at_first.status == 200
    assert later.status == 503
    assert f"{erasure_id}: residue found, at risk, is due" in later.body
    assert "notes.txt" in later.body
    (alarm,) = alarms(caplog)
    assert "erasure at risk" in alarm
    assert "notes.txt" in alarm
    assert shown["will_miss"] is True
    assert "notes.txt" in shown["blocked_by"]
    assert shown["blocked_since_ms"] is not None
    assert "ledgerstone_erasures_blocked 1" in exposition(samples(machine.broker))

    machine.fs.unlink("/data/notes.txt")
    assert machine.run(erasure_id).stage is Stage.RECEIPTED
    assert readiness(machine.broker).status == 200
    assert "ledgerstone_erasures_blocked 0" in exposition(samples(machine.broker))


def test_overdue_line_names_the_residue(caplog: pytest.LogCaptureFixture) -> None:
    machine, erasure_id = with_residue(within_ms=2 * DAY_MS)

    pass_time(machine, 2 * DAY_MS, step_ms=6 * HOUR_MS)

    overdue = [each for each in alarms(caplog) if "erasure overdue" in each]
    assert len(overdue) == 1
    assert "notes.txt" in overdue[0]
    assert "takes too long" not in overdue[0]
    assert f"{erasure_id}: residue found, was due" in readiness(machine.broker).body


def test_overdue_line_names_the_group_that_holds(caplog: pytest.LogCaptureFixture) -> None:
    machine = machine_with(
        1,
        None,
        ledgerstone_tombstone_hold_groups="billing",
        ledgerstone_tombstone_hold_max_ms=str(60 * DAY_MS),
    )
    machine.put(0, (KEY, b"1"))
    commit_offset(machine.connect(), "billing", 0, topic=TOPIC)
    erasure_id = machine.erase(within_ms=30 * DAY_MS)
    machine.run(erasure_id, until=Stage.STAMPED)

    pass_time(machine, 2 * DAY_MS, step_ms=6 * HOUR_MS)
    early = readiness(machine.broker)
    pass_time(machine, 30 * DAY_MS, step_ms=12 * HOUR_MS)
    late = readiness(machine.broker)

    at_risk, overdue = alarms(caplog)
    for text in (at_risk, overdue, str(early.body), str(late.body)):
        assert "billing" in text
        assert "takes too long" not in text
    assert "erasure at risk" in at_risk
    assert "erasure overdue" in overdue
    assert early.status == late.status == 503


def test_policy_that_no_longer_compacts_is_at_risk_after_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"))
    machine.erase(within_ms=30 * DAY_MS, after_ms=HOUR_MS)
    alter_topic(machine, "cleanup.policy", "delete")
    pass_time(machine, HOUR_MS, step_ms=HOUR_MS)

    pass_time(machine, HOUR_MS + 10 * MINUTE_MS)

    (alarm,) = alarms(caplog)
    assert "cleanup.policy does not contain compact" in alarm
    assert "at risk" in readiness(machine.broker).body


def test_deadline_that_cannot_be_met_is_said_in_the_answer_to_the_request() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"1"), (b"bob", b"1"))
    fields = {"reason": "", "requested_by": "clerk", "key": "Ym9i"}

    short = machine.call("POST", f"topics/{TOPIC}/erasures", **fields, within_ms=HOUR_MS)
    enough = machine.call("POST", f"topics/{TOPIC}/erasures", **fields, within_ms=2 * DAY_MS)
    without = machine.call("POST", f"topics/{TOPIC}/erasures", **fields)

    assert "delete.retention.ms=86400000" in short["warning"]
    assert "to at most 3480000" in short["warning"]
    (erasure,) = short["erasures"]
    assert erasure["will_miss"] is True
    assert enough["warning"] is None
    assert without["warning"] is None
    # It is late for a reason that who asked was told: that is no reason to call the broker unready.
    machine.settle()
    assert readiness(machine.broker).status == 200


def test_list_goes_on_beyond_a_thousand() -> None:
    machine = machine_with(partitions=1)
    machine.put(0, (b"a", b"1"))
    first = machine.erase(b"first", after_ms=DAY_MS)
    for start in range(0, 2_100, 700):
        machine.erase_all(
            [b"k%d" % number for number in range(start, start + 700)], after_ms=DAY_MS
        )

    ids: list[str] = []
    path = "erasures?open=1"
    while True:
        page = machine.call("GET", path)
        assert page["total"] == 2_101
        ids += [each["id"] for each in page["erasures"]]
        if page["next"] is None:
            break
        path = f"erasures?open=1&after={page['next']}"
    machine.call("POST", f"erasures/{first}/cancel", by="clerk")

    assert len(ids) == len(set(ids)) == 2_101
    assert ids[-1] == first
    assert machine.call("GET", "erasures?open=1&limit=0") | {"now_ms": 0} == {
        "now_ms": 0, "total": 2_100, "erasures": [], "next": None,
    }  # fmt: skip
    assert machine.call("GET", "erasures?limit=2")["total"] == 2_101
    assert machine.page("GET", "erasures?limit=1001").status == 400
    assert machine.page("GET", "erasures?limit=x").status == 400
    assert machine.page("GET", "erasures?limit=0000000001001").status == 400
    assert machine.page("GET", "erasures?after=ER-0").status == 404
