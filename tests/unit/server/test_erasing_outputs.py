"""Known outputs of an erased topic: who read the tombstone, who holds the receipt, supplements."""

import json
from contextlib import suppress
from typing import Any

import pytest

from ledgerstone.erasure.erasure import ScanOutcome, Stage
from ledgerstone.erasure.receipt import verify
from ledgerstone.erasure.standing import GROUPS_WAIT_MS
from ledgerstone.erasure.supplement import verify_supplement
from ledgerstone.erasure.supplement_issue import MAX_PER_OUTPUT, MAX_UNNAMED
from ledgerstone.erasure.verifiers import Word, question_about
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.results import VerifierFailed, VerifierSaid
from ledgerstone.sim.filesystem import SimulatedCrash
from tests.unit.server.asks import create_topic, delete_topic
from tests.unit.server.erasing_kit import HOUR_MS, KEY, TOPIC, ErasingMachine, machine_with

RETENTION_MS = 1_000
PIPELINE = "ledgerstone-pipeline-people"


def commit(machine: ErasingMachine, group: str, offset: int, *, pipeline: bool = False) -> None:
    """As a consumer does, or as a pipeline that notes when it did."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    partition.committed_metadata = '{"at_ms": 1}' if pipeline else ""
    topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    answer = machine.connect().ask(request, OffsetCommitResponse, 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE


def machine_with_key() -> ErasingMachine:
    """The key at offset 0, its tombstone will be at 3."""
    retention = str(RETENTION_MS)
    machine = machine_with(partitions=1, delete_retention_ms=retention, file_delete_delay_ms="0")
    machine.put(0, (KEY, b"1"), (b"bob", b"2"), (b"carol", b"3"))
    return machine


def receipt_of(machine: ErasingMachine, erasure_id: str) -> dict[str, Any]:
    data = receipt_bytes(machine, erasure_id)
    assert verify(data).ok, verify(data)
    content: dict[str, Any] = json.loads(data)
    return content


def receipt_bytes(machine: ErasingMachine, erasure_id: str) -> bytes:
    body: str = machine.page("GET", f"erasures/{erasure_id}/receipt").body
    return body.encode()


def outputs_of(machine: ErasingMachine, erasure_id: str) -> dict[str, tuple[str, str]]:
    found = receipt_of(machine, erasure_id)["outputs"]
    return {each["name"]: (each["status"], each["reason"]) for each in found}


def evidence(machine: ErasingMachine, erasure_id: str, **fields: Any) -> Any:
    body = {"verifier": "pipelines", "output": "sqlite:p.db", "verdict": "clean", "evidence": "0"}
    return machine.call("POST", f"erasures/{erasure_id}/evidence", **{**body, **fields})


def supplements_of(machine: ErasingMachine, erasure_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = machine.call("GET", f"erasures/{erasure_id}/supplements")[
        "supplements"
    ]
    return found


# -- who read the tombstone -----------------------------------------------------------------------


def test_group_that_missed_the_tombstone_stands_in_the_receipt_and_one_that_read_it_too() -> None:
    machine = machine_with_key()
    commit(machine, "slow", 2)
    commit(machine, "fast", 2)
    erasure_id = machine.erase()
    machine.settle()
    commit(machine, "fast", 4)

    erasure = machine.run(erasure_id)

    assert erasure.stage is Stage.RECEIPTED
    assert outputs_of(machine, erasure_id) == {
        "slow": ("not_verified", "missed_tombstone"),
        "fast": ("read", ""),
    }
    content = receipt_of(machine, erasure_id)
    (slow,) = (each for each in content["outputs"] if each["name"] == "slow")
    assert (slow["partition"], slow["tombstone_offset"], slow["committed_offset"]) == (0, 3, 2)
    assert (content["outputs_in_all"], content["outputs_not_verified"]) == (2, 1)
    assert "outputs that stand as not_verified under outputs" in content["not_covered"]


def test_group_that_moves_on_after_the_removal_has_still_missed_it() -> None:
    machine = machine_with_key()
    commit(machine, "slow", 2)
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.REMOVED)
    commit(machine, "slow", 4)

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {"slow": ("not_verified", "missed_tombstone")}


def test_group_at_the_very_beginning_has_not_read_the_tombstone_either() -> None:
    machine = machine_with_key()
    commit(machine, "reset", 0)

    erasure_id = machine.erase()
    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {"reset": ("not_verified", "missed_tombstone")}


def test_group_that_is_deleted_meanwhile_is_not_forgotten() -> None:
    machine = machine_with_key()
    commit(machine, "slow", 2)
    erasure_id = machine.erase()
    machine.settle()
    request = DeleteGroupsRequest(groups_names=["slow"])
    answer = machine.connect().ask(request, DeleteGroupsResponse)
    assert [each.error_code for each in answer.results] == [ErrorCode.NONE]

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {"slow": ("not_verified", "offsets_deleted")}


def test_group_first_seen_between_removal_and_signature_is_named() -> None:
    machine = machine_with_key()
    machine.verifiers["lake"] = "not now"
    erasure_id = machine.erase(outputs_wait_ms=HOUR_MS)
    machine.run(erasure_id, until=Stage.VERIFIED)
    commit(machine, "new", 4)

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {
        "lake": ("not_verified", "refused"),
        "new": ("not_verified", "first_seen_later"),
    }


def test_groups_of_a_topic_that_came_back_under_its_name_are_others() -> None:
    machine = machine_with_key()
    commit(machine, "old", 2)
    erasure_id = machine.erase()
    machine.settle()
    delete_topic(machine.connect(), TOPIC)
    create_topic(machine.connect(), TOPIC, 1, cleanup_policy="compact")
    machine.put(0, *((b"dave", b"4") for _ in range(9)))
    commit(machine, "old", 9)
    commit(machine, "other", 9)

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {"old": ("not_verified", "offsets_deleted")}


def test_what_groups_had_read_survives_a_restart() -> None:
    machine = machine_with_key()
    commit(machine, "slow", 2)
    commit(machine, "fast", 4)
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.REMOVED)
    machine.kill()
    commit(machine, "slow", 4)

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {
        "slow": ("not_verified", "missed_tombstone"),
        "fast": ("read", ""),
    }


def test_name_of_a_group_with_the_key_in_it_is_kept_without_the_key() -> None:
    machine = machine_with_key()
    commit(machine, f"export-{KEY.decode()}-nightly", 2, pipeline=True)
    erasure_id = machine.erase(outputs_wait_ms=0)

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id) == {
        "export-…-nightly": ("not_verified", "missed_tombstone")
    }
    assert KEY not in receipt_bytes(machine, erasure_id)
    # It can answer all the same.
    evidence(machine, erasure_id, group=f"export-{KEY.decode()}-nightly")
    assert machine.call("GET", f"erasures/{erasure_id}")["outputs_not_verified"] == 0


# -- who holds the receipt ------------------------------------------------------------------------


def test_pipeline_that_missed_the_tombstone_holds_the_receipt_for_a_day() -> None:
    machine = machine_with_key()
    commit(machine, PIPELINE, 2, pipeline=True)
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.VERIFIED)

    shown = machine.call("GET", f"erasures/{erasure_id}")
    erasure = machine.run(erasure_id)

    verified_ms, receipted_ms = (at_ms for _, at_ms in erasure.stage_times[-2:])
    assert f"group {PIPELINE} missed the tombstone" in shown["waits_for"]
    assert shown["waits_until_ms"] == verified_ms + GROUPS_WAIT_MS
    assert GROUPS_WAIT_MS <= receipted_ms - verified_ms < GROUPS_WAIT_MS + HOUR_MS
    assert outputs_of(machine, erasure_id) == {PIPELINE: ("not_verified", "missed_tombstone")}


def test_evidence_of_the_pipeline_ends_the_wait_and_makes_it_verified() -> None:
    machine = machine_with_key()
    commit(machine, PIPELINE, 2, pipeline=True)
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.VERIFIED)

    evidence(machine, erasure_id, group=PIPELINE)
    machine.settle()

    assert outputs_of(machine, erasure_id) == {
        "pipelines": ("verified", ""), PIPELINE: ("verified", "")
    }  # fmt: skip
    assert receipt_of(machine, erasure_id)["outputs_not_verified"] == 0


def test_evidence_from_before_the_first_pass_does_not_count_for_a_group() -> None:
    machine = machine_with_key()
    machine.held_passes = []
    commit(machine, PIPELINE, 2, pipeline=True)
    erasure_id = machine.erase(outputs_wait_ms=0)
    machine.run(erasure_id, until=Stage.TOMBSTONED)
    evidence(machine, erasure_id, group=PIPELINE)
    machine.release()

    machine.run(erasure_id)

    assert outputs_of(machine, erasure_id)[PIPELINE] == ("not_verified", "missed_tombstone")
    # The same words, given now, are news.
    evidence(machine, erasure_id, group=PIPELINE)
    assert len(supplements_of(machine, erasure_id)) == 1


def test_several_words_are_taken_at_once_or_not_at_all() -> None:
    machine = machine_with_key()
    commit(machine, PIPELINE, 2, pipeline=True)
    erasure_id = machine.erase()
    machine.run(erasure_id, until=Stage.VERIFIED)
    words = [
        {"output": "table", "verdict": "clean", "evidence": "0 rows"},
        {"output": "files", "verdict": "residue", "evidence": "1 file"},
    ]

    evidence(machine, erasure_id, group=PIPELINE, words=words)
    machine.settle()

    assert machine.call("GET", f"erasures/{erasure_id}")["status"] == "residue found"


def test_verifier_is_waited_for_until_the_bound_of_the_request_and_then_named() -> None:
    machine = machine_with_key()
    for_ever = machine.erase(verifiers=["lake"])
    bounded = machine.erase(b"bob", verifiers=["lake"], outputs_wait_ms=HOUR_MS)

    machine.run(bounded)
    machine.run(for_ever)

    assert machine.erasure(for_ever).stage is Stage.VERIFIED
    assert outputs_of(machine, bounded) == {"lake": ("not_verified", "never_answered")}


# -- supplements ----------------------------------------------------------------------------------


def receipted(machine: ErasingMachine) -> str:
    """One whose receipt names a pipeline that missed the tombstone."""
    commit(machine, PIPELINE, 2, pipeline=True)
    erasure_id = machine.erase(outputs_wait_ms=0)
    assert machine.run(erasure_id).stage is Stage.RECEIPTED
    return erasure_id


def test_evidence_after_the_receipt_becomes_a_signed_supplement() -> None:
    machine = machine_with_key()
    erasure_id = receipted(machine)
    before = receipt_bytes(machine, erasure_id)

    shown = evidence(machine, erasure_id, group=PIPELINE)

    assert receipt_bytes(machine, erasure_id) == before
    assert shown["outputs_not_verified"] == 0
    page = machine.page("GET", f"erasures/{erasure_id}/supplements/1")
    assert verify_supplement(page.body.encode(), before).ok
    (content,) = supplements_of(machine, erasure_id)
    assert content["covers"] == [
        {"kind": "group", "name": PIPELINE}, {"kind": "verifier", "name": "pipelines"}
    ]  # fmt: skip
    assert machine.page("GET", f"erasures/{erasure_id}/supplements/2").status == 404


def test_verifier_that_answers_after_the_receipt_gives_a_supplement() -> None:
    machine = machine_with_key()
    erasure_id = machine.erase(verifiers=["lake"], outputs_wait_ms=0)
    erasure = machine.run(erasure_id)
    asked = AskVerifier("lake", question_about(erasure))

    machine.report(asked, VerifierFailed("it failed with OSError"))
    machine.report(asked, VerifierSaid((Word("t", ScanOutcome.CLEAN, "0 rows"),)))

    (content,) = supplements_of(machine, erasure_id)
    assert content["covers"] == [{"kind": "verifier", "name": "lake"}]
    assert machine.call("GET", f"erasures/{erasure_id}")["outputs_not_verified"] == 0


def test_same_evidence_twice_gives_one_supplement_also_after_a_crash() -> None:
    machine = machine_with_key()
    erasure_id = receipted(machine)
    evidence(machine, erasure_id, group=PIPELINE)
    first = machine.page("GET", f"erasures/{erasure_id}/supplements/1").body
    machine.kill()

    evidence(machine, erasure_id, group=PIPELINE)

    assert len(supplements_of(machine, erasure_id)) == 1
    assert machine.page("GET", f"erasures/{erasure_id}/supplements/1").body == first


def test_death_at_any_operation_leaves_one_supplement_or_none() -> None:
    machine = machine_with_key()
    erasure_id = receipted(machine)
    before = machine.fs.operation_count
    evidence(machine, erasure_id, group=PIPELINE)
    operations = machine.fs.operation_count - before
    for operation in range(1, operations + 1):
        machine.fs.crash_at(machine.fs.operation_count + operation, torn=operation % 2 == 1)
        with suppress(SimulatedCrash):
            evidence(machine, erasure_id, verifier=f"verifier {operation}")

        machine.lose_power()
        assert machine.broker.erasing.journal.breaks == [], operation
        evidence(machine, erasure_id, verifier=f"verifier {operation}")

        numbers = [each["number"] for each in supplements_of(machine, erasure_id)]
        last = machine.page("GET", f"erasures/{erasure_id}/supplements/{numbers[-1]}").body
        assert numbers == list(range(1, operation + 2))
        assert verify_supplement(last.encode(), receipt_bytes(machine, erasure_id)).ok
    assert MAX_UNNAMED >= operations >= 4


def test_residue_found_after_the_receipt_is_said_and_can_be_made_good() -> None:
    machine = machine_with_key()
    erasure_id = receipted(machine)

    found = evidence(machine, erasure_id, group=PIPELINE, verdict="residue", evidence="1 row")
    gone = evidence(machine, erasure_id, group=PIPELINE)

    assert {each["reason"] for each in found["outputs"]} == {"residue"}
    assert gone["outputs_not_verified"] == 0
    assert [each["verdict"] for each in gone["supplements"]] == ["residue", "clean"]


def test_supplements_are_bounded_and_a_stranger_leaves_room_for_known_outputs() -> None:
    machine = machine_with_key()
    erasure_id = receipted(machine)
    path = f"erasures/{erasure_id}/evidence"
    body = {"output": "t", "verdict": "clean", "evidence": "0"}
    for number in range(MAX_UNNAMED):
        evidence(machine, erasure_id, verifier=f"stranger-{number}")

    one_more = machine.page("POST", path, verifier="stranger", **body)
    for number in range(MAX_PER_OUTPUT):
        evidence(machine, erasure_id, group=PIPELINE, evidence=f"{number} rows")
    too_often = machine.page("POST", path, verifier="pipelines", group=PIPELINE, **body)

    assert (one_more.status, too_often.status) == (400, 400)
    assert "does not name, the most it may" in one_more.body
    assert "the most an output may have" in too_often.body
    assert len(supplements_of(machine, erasure_id)) == MAX_UNNAMED + MAX_PER_OUTPUT


@pytest.mark.parametrize("field", ["verifier", "output", "evidence"])
def test_supplement_that_would_hold_the_key_is_refused(field: str) -> None:
    machine = machine_with_key()
    erasure_id = receipted(machine)
    body = {"verifier": "v", "output": "t", "verdict": "clean", "evidence": "0"}

    page = machine.page(
        "POST", f"erasures/{erasure_id}/evidence", **{**body, field: f"row {KEY.decode()}"}
    )

    assert page.status == 400
    assert "contains the key" in page.body
    assert not supplements_of(machine, erasure_id)


def test_scan_of_a_later_erasure_finds_no_residue_in_receipts_and_supplements() -> None:
    """Words of ours in the journal, as of reasons and statuses, are nobody's key."""
    machine = machine_with_key()
    erasure_id = receipted(machine)
    evidence(machine, erasure_id, group=PIPELINE, evidence="0 rows")
    for key in (b"missed_tombstone", b"not_verified", b"verifier", b"supplement", b"covers"):
        machine.put(0, (key, b"1"))
        later = machine.erase(key, outputs_wait_ms=0)
        assert machine.run(later).stage is Stage.RECEIPTED, key


def test_erasure_without_a_receipt_takes_no_evidence_after_its_end() -> None:
    machine = machine_with_key()
    erasure_id = machine.erase(b"nowhere-to-be-found")
    machine.run(erasure_id)
    body = {"verifier": "v", "output": "t", "verdict": "clean", "evidence": "0"}

    page = machine.page("POST", f"erasures/{erasure_id}/evidence", **body)

    assert page.status == 400
    assert "not_found and takes no more evidence" in page.body
