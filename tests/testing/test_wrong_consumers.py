"""Each scenario catches the mistake it is made for, and its message names the mistake."""

import pytest

import tests.testing.wrong_consumers  # noqa: F401 - loaded here, so that no inner run loads it anew
from ledgerstone.testing.conformance.scenarios import SCENARIOS

pytest_plugins = ["pytester"]

CAUGHT = [
    ("IgnoresNull", "null_value", "b'a' should not be there, found b'1'"),
    ("TakesNullWithHeadersForAnEvent", "null_value_with_headers", "b'a' should not be there"),
    ("ForgetsForEver", "recreated_after_delete", "b'a' is missing, expected b'2'"),
    ("StumblesOverUnknownKeys", "delete_of_unknown_key", "the consumer raised KeyError"),
    ("TakesRepetitionForCorruption", "repeated_tombstones", "was deleted twice"),
    ("TakesEmptyForNull", "empty_value_is_no_tombstone", "b'a' is missing, expected b''"),
    ("SkipsTransactions", "committed_transaction", "b'a' should not be there"),
    ("ReadsUncommitted", "aborted_transaction", "b'a' is missing, expected b'1'"),
    ("DropsWhatLiesBetween", "interleaved_transactions", "b'c' is missing, expected b'3'"),
    ("WantsEveryOffset", "gaps_after_compaction", "RuntimeError('offset 6, expected 0')"),
    ("WaitsForEveryOffset", "gaps_after_compaction", "has not returned within 1 s"),
    ("StartsAtTheEnd", "deleted_while_away", "b'a' should not be there"),
    ("Resuming", "missed_delete", "b'a' is a ghost: it was deleted while the consumer was away"),
    ("HasOneTableForAllPartitions", "key_moves_between_partitions", "b'a' is missing"),
    ("TakesABatchForARecord", "compressed_batches", "b'gzip-stays' is missing"),
    ("CutsLargeValues", "large_values", "(65535 bytes), expected b'vvv"),
    ("ReturnsText", "null_value", "a state maps bytes to bytes; here 'a' has '1'"),
]


@pytest.mark.parametrize(("name", "scenario", "message"), CAUGHT, ids=[each[0] for each in CAUGHT])
def test_mistake_is_caught_by_the_scenario_meant_for_it(
    pytester: pytest.Pytester, name: str, scenario: str, message: str
) -> None:
    pytester.makepyfile(
        f"from tests.testing.wrong_consumers import {name}\nclass TestIt({name}): pass\n"
    )

    result = pytester.runpytest_inprocess("-k", f"TestIt and [{scenario}]")

    result.assert_outcomes(failed=1, deselected=len(SCENARIOS) - 1)
    text = result.stdout.str()
    assert message in text
    assert f"{scenario}: {SCENARIOS[scenario].__doc__}" in text


def test_each_scenario_has_a_mistake_it_is_meant_for() -> None:
    assert {scenario for _, scenario, _ in CAUGHT} == set(SCENARIOS)


def test_consumer_with_one_mistake_passes_every_other_scenario(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        "from tests.testing.wrong_consumers import Resuming\nclass TestIt(Resuming): pass\n"
    )

    result = pytester.runpytest_inprocess("-q")

    result.assert_outcomes(failed=1, passed=len(SCENARIOS) - 1)
    result.stdout.fnmatch_lines(["FAILED *TestIt::test_tombstones?missed_delete?*"])
