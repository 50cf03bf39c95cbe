"""Codes as exceptions."""

import pytest

from ledgerstone import errors
from ledgerstone.client.errors import BrokerError, check, error_of
from ledgerstone.client.reactions import Reaction, reaction_to
from ledgerstone.protocol.error_codes import RETRIABLE, ErrorCode


def test_known_code_becomes_its_class() -> None:
    error = error_of(36, "topic t", "there already")

    assert type(error) is errors.TopicAlreadyExists
    assert str(error) == "topic t: TOPIC_ALREADY_EXISTS: there already"


def test_code_without_a_class_keeps_its_number_and_its_name() -> None:
    error = error_of(ErrorCode.LISTENER_NOT_FOUND, "topic t")

    assert isinstance(error, BrokerError)
    assert (error.code, error.name, error.retriable) == (72, "LISTENER_NOT_FOUND", True)


def test_code_from_the_future_is_still_an_error() -> None:
    with pytest.raises(BrokerError, match="error code 9999"):
        check(9999, "topic t")


def test_no_error_raises_nothing() -> None:
    check(0, "topic t")


def test_every_class_is_found_by_its_code() -> None:
    classes = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.KafkaError) and "code" in vars(each)
    ]

    found = [type(error_of(each.code, "x")) for each in classes if each is not errors.KafkaError]

    assert found == [each for each in classes if each is not errors.KafkaError]


@pytest.mark.parametrize("code", sorted(RETRIABLE))
def test_retriable_code_is_never_given_up_on(code: ErrorCode) -> None:
    assert reaction_to(code) is not Reaction.FAIL


def test_refused_topic_name_is_given_up_on() -> None:
    assert reaction_to(ErrorCode.INVALID_TOPIC_EXCEPTION) is Reaction.FAIL
