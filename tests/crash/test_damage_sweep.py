"""Every kind of file, damaged in every way, after either stop: never silent, and never a traceback.

The table in docs/reliability.md is what this sweep finds; `python -m tests.kit.damage_table` writes
it.
"""

import pytest

from ledgerstone.records.batch import iter_headers
from ledgerstone.sim.dice import SeededDice
from tests.kit import damage_table
from tests.kit.damage import STOPS, WAYS, Case, Verdict, cases, damaged, judge, verdict_on, world
from tests.kit.damage_table import HARMLESS, NOTHING


def undamaged(stop: str) -> Verdict:
    return judge(stop, world(stop).fs.clone(dice=SeededDice("none")), "nothing")


def check(kind: str, path: str, verdict: Verdict, whole: Verdict) -> None:
    name = path.rpartition("/")[2]
    assert verdict.witness_serves or verdict.outcome == "refuses to start", verdict
    if verdict.outcome == NOTHING:
        assert verdict.seen == whole.seen, f"{kind}: something changed, and nobody said so"
        return
    assert any(name in line for line in verdict.said), verdict.said
    if verdict.outcome == "refuses to start":
        return
    is_red = not verdict.readiness.startswith("ready")
    assert is_red == (verdict.outcome not in ("rebuilt, a line", "cut, a line")), verdict
    if is_red:
        assert name in verdict.readiness, verdict.readiness
    else:
        assert verdict.seen == whole.seen, f"{kind}: something changed, and /readyz is green"


def test_a_whole_directory_is_no_news() -> None:
    for stop in STOPS:
        verdict = undamaged(stop)

        assert (verdict.outcome, verdict.said, verdict.readiness) == (NOTHING, [], "ready\n")


def test_damage_is_told_with_the_name_of_the_file_and_other_partitions_serve() -> None:
    """One test, as the table is made of the same verdicts."""
    for stop in STOPS:
        whole = undamaged(stop)
        for case in cases(stop):
            for way in WAYS:
                verdict = verdict_on(stop, case, way)

                check(case.kind, case.path, verdict, whole)
                if verdict.outcome == NOTHING:
                    assert damage_table.harmless(case.kind) is not None, (case.kind, way)

    assert damage_table.in_document() == damage_table.made(), (
        "run: python -m tests.kit.damage_table"
    )


def test_every_excuse_is_used() -> None:
    kinds = {case.kind for stop in STOPS for case in cases(stop)}

    for excuse in HARMLESS:
        assert any(excuse in kind for kind in kinds), excuse


@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS)
def test_flipped_byte_anywhere_is_told_or_changes_nothing(stop: str) -> None:
    whole = undamaged(stop)

    for case in cases(stop):
        if case.kind.startswith("`log-start-offset-checkpoint`"):
            continue  # its numbers have no checksum: docs/reliability.md, "What is not noticed"
        size = world(stop).fs.size_of(case.path)
        for position in range(0, size, max(1, size // 40)):
            if _is_unchecked_offset(stop, case, position):
                continue  # outside of the checksum, in Kafka's format: the same page
            verdict = judge(stop, damaged(stop, case, "flipped", position), case.path)

            check(f"{case.kind} at {position}", case.path, verdict, whole)


def _is_unchecked_offset(stop: str, case: Case, position: int) -> bool:
    """Whether it lies in the base offset of a batch, where a compacted log may have gaps."""
    if not case.kind.endswith("`.log` of a compacted topic"):
        return False
    data = world(stop).fs.files()[case.path]
    return any(0 <= position - start < 8 for start, _ in iter_headers(data))
