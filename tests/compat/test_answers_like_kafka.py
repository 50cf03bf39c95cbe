"""Every answer to a wrong request, field by field beside Apache Kafka's: `make kafka-reads`.

Both brokers are set up by the same requests, then asked the same in every version that we take.
What differs has to stand in `answers_accepted.py`, with the reason, or be mended.
"""

import shutil
from collections.abc import Iterator

import pytest

from ledgerstone.protocol.codec import decode_response
from tests.compat.answers_accepted import ACCEPTED, Accepted, is_accepted
from tests.compat.both_brokers import Case, Outcome, Side, differences, outcome
from tests.compat.both_setup import set_up
from tests.compat.recorded_answers import CASES, SETTINGS, plain, read, running_kafka
from tests.kit.broker import BrokerProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

Sides = tuple[Side, Side]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    work = tmp_path_factory.mktemp("both")
    process = BrokerProcess(tmp_path_factory.mktemp("ours"), settings=SETTINGS)
    with running_kafka(work / "kafka") as kafka, process:
        ours = Side("ours", process.bootstrap)
        set_up(ours)
        yield kafka, ours
        ours.close()


@pytest.fixture(scope="module")
def recorded() -> dict[tuple[str, int], Outcome]:
    return read()


@pytest.fixture(scope="module")
def used() -> set[Accepted]:
    return set()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_answer_is_the_one_of_kafka(
    case: Case,
    sides: Sides,
    used: set[Accepted],
    recorded: dict[tuple[str, int], Outcome],
) -> None:
    found = []
    for version in case.versions:
        kafka, ours = (plain(outcome(side, case, version)) for side in sides)
        # What the default suite compares with, made by `python -m tests.compat.recorded_answers`.
        assert kafka == recorded.get((case.name, version), kafka)
        for difference in differences(kafka, ours):
            reason = is_accepted(case, difference)
            if reason is None:
                found.append((version, *difference))
            else:
                used.add(reason)

    assert found == []


API_VERSIONS, FETCH, METADATA, NOBODYS = 18, 1, 3, 999


@pytest.mark.parametrize(
    ("api_key", "version", "body"),
    [
        (NOBODYS, 0, b""),
        (-1, 0, b""),
        (FETCH, 3, b""),
        (FETCH, 99, b""),
        (METADATA, 1, b""),
        (METADATA, 1, bytes.fromhex("7fffffff")),
        (METADATA, 12, bytes.fromhex("ffffffffff")),
        (METADATA, 5, bytes.fromhex("00000001 0005 61")),
    ],
)
def test_what_is_no_request_closes_the_connection_of_both(
    sides: Sides, api_key: int, version: int, body: bytes
) -> None:
    assert [side.send_raw(api_key, version, body) for side in sides] == [None, None]


def test_client_that_is_too_new_is_told_by_both_what_it_may_ask(sides: Sides) -> None:
    answers = [side.send_raw(API_VERSIONS, 99, b"\0") for side in sides]

    kafka, ours = (decode_response(API_VERSIONS, 0, answer or b"") for answer in answers)
    assert ours == kafka


def test_every_accepted_difference_is_still_one(used: set[Accepted]) -> None:
    assert [each for each in ACCEPTED if each not in used] == []


def test_names_of_cases_are_unique() -> None:
    names = [case.name for case in CASES]

    assert sorted(set(names)) == sorted(names)
