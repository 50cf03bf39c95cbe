"""Every API asked by principals with no right, each single right, and all, beside Apache Kafka."""

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.compat import authorization_matrix as matrix
from tests.compat.authorization_cases import PRINCIPALS
from tests.compat.authorization_matrix import Answers


class Accepted(NamedTuple):
    """A difference that is not about rights: the beginning of a case's name, and of a path."""

    case: str
    path: str
    reason: str


ACCEPTED = (
    Accepted("create topics", "topics.topic_id", "validate_only gives no id, since there is none"),
    Accepted("create", "topics.configs.ledgerstone", "settings of our own"),
    Accepted("fetch the quorum", "error_code", "the topic is looked at before the cluster id"),
    Accepted("fetch a snapshot", "error_code", "the same"),
    *(
        Accepted(f"make an acl with {each}", "results.error_code", "a whole request for one ACL")
        for each in ("any", "a matching pattern")
    ),
    Accepted("versions", "api_keys.size", "each offers what it serves"),
    Accepted("versions", "finalized_features", "types of groups that are not served"),
)


def differences(kafka: Answers, ours: Answers) -> list[tuple[str, str, str, str]]:
    """Case, principal, who said it, and what only that one said."""
    assert list(kafka) == list(ours)
    found = []
    for case, by_name in kafka.items():
        for name, theirs in by_name.items():
            mine = ours[case][name]
            found += [(case, name, "kafka", each) for each in theirs if each not in mine]
            found += [(case, name, "ours", each) for each in mine if each not in theirs]
    return [
        each
        for each in found
        if not any(each[0].startswith(a.case) and each[3].startswith(a.path) for a in ACCEPTED)
    ]


def test_each_principal_is_answered_as_kafka_answered_it() -> None:
    kafka, ours = matrix.read(), matrix.our_answers()

    assert {where: differences(kafka[where], ours[where]) for where in kafka} == {
        where: [] for where in kafka
    }


def test_principal_of_a_login_is_answered_as_kafka_answered_it(tmp_path: Path) -> None:
    """Through sockets and SASL, as Kafka was asked: every case, by every ninth principal."""
    names = list(PRINCIPALS)[::9]
    kafka = {
        case: {name: by_name[name] for name in names}
        for case, by_name in matrix.read()["broker"].items()
    }

    ours = matrix.our_answers_to_logins(tmp_path, names)

    assert len(names) == 3
    assert differences(kafka, ours) == []


def test_record_has_every_api_that_is_served() -> None:
    """A handler without a rule stops the start; one without a case is found here."""
    from ledgerstone.protocol.messages import APIS
    from ledgerstone.server.dispatch import CONTROLLER_HANDLED, HANDLED
    from tests.compat.authorization_cases import broker_cases, controller_cases

    asked = {case.api for case in broker_cases("")} | {case.api for case in controller_cases("")}
    served = {APIS[key].name for key in (*HANDLED, *CONTROLLER_HANDLED)}
    # No principal yet; types of groups that are not served; what would change the test's quorum;
    # what is between our own brokers.
    elsewhere = {
        "SaslHandshake", "SaslAuthenticate", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat",
        "ControllerRegistration", "AlterUserScramCredentials", "ErasureWork",
    }  # fmt: skip
    assert served - asked - elsewhere == set()


@pytest.mark.kafka
@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_record_is_what_kafka_says(tmp_path: Path) -> None:
    asked = matrix.kafka_answers(tmp_path / "kafka")

    recorded = matrix.read()
    for where, answers in asked.items():
        assert answers == recorded[where]
