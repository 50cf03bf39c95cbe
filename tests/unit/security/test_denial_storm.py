"""A storm of denials makes few lines, and none of them is forgotten."""

from ledgerstone.security.denial_storm import Denial, DenialStorm


def _denial(number: int = 0) -> Denial:
    return Denial(f"User:{number}", "10.0.0.1", "Produce", "WRITE", "TOPIC:t")


def test_few_denials_are_written_one_by_one() -> None:
    storm = DenialStorm()

    written = [storm.denied(_denial(number), now_ms=number) for number in range(10)]

    assert [[each.times for each in lines] for lines in written] == [[1]] * 10
    assert storm.next_deadline_ms is None


def test_storm_of_one_is_counted_and_written_once_a_second() -> None:
    storm = DenialStorm()
    lines = 0
    counted = 0

    for now_ms in range(5_000):
        for _ in range(10):
            written = storm.denied(_denial(), now_ms)
            lines += len(written)
            counted += sum(each.times for each in written)
    last = storm.due(10_000)

    assert lines <= 10 * 5
    assert counted + sum(each.times for each in last) == 50_000


def test_storm_of_many_keeps_the_largest_apart_and_forgets_none() -> None:
    storm = DenialStorm()
    for number in range(10):
        storm.denied(_denial(number), now_ms=0)

    for number in range(5_000):
        assert storm.denied(_denial(number), now_ms=1) == []
        assert storm.denied(_denial(7), now_ms=1) == []
    due = storm.due(1_000)

    assert storm.next_deadline_ms is None
    assert due[0] == (_denial(7), 5_001)
    assert due[-1].denial.principal is None
    assert len(due) == 6
    assert sum(each.times for each in due) == 10_000
