"""What a broker offers and what it takes."""

import pytest

from ledgerstone.errors import KafkaError
from ledgerstone.protocol.api import OFFERED, ApiKey, accepts, advertised, is_flexible
from ledgerstone.protocol.error_codes import RETRIABLE, ErrorCode
from ledgerstone.protocol.messages import APIS
from ledgerstone.protocol.messages.api_versions import ApiVersion


def test_only_what_has_a_handler_is_advertised_sorted_by_key() -> None:
    assert advertised([18, 3, 3, 1]) == [
        ApiVersion(api_key=1, min_version=4, max_version=18),
        ApiVersion(api_key=3, min_version=0, max_version=13),
        ApiVersion(api_key=18, min_version=0, max_version=4),
    ]


def test_produce_is_advertised_from_0_and_refused_below_3() -> None:
    (produce,) = advertised([ApiKey.PRODUCE])

    assert (produce.min_version, produce.max_version) == (0, 13)
    assert [version for version in range(15) if accepts(0, version)] == list(range(3, 14))


def test_everything_accepted_has_a_schema() -> None:
    for key, (first, last) in OFFERED.items():
        for version in range(first, last + 1):
            if accepts(key, version):
                assert APIS[key].first_version <= version <= APIS[key].last_version


@pytest.mark.parametrize("key", [4, 5, 6, 7, 71, 72, 77, 88])
def test_what_is_removed_or_not_served_is_never_offered(key: int) -> None:
    assert advertised([key]) == []
    assert not accepts(key, 0)


def test_metadata_offer_does_not_end_where_librdkafka_errs() -> None:
    assert OFFERED[ApiKey.METADATA].last not in (9, 10)


def test_flexible_versions_begin_where_the_schema_says() -> None:
    assert [is_flexible(0, version) for version in (8, 9)] == [False, True]
    assert not is_flexible(17, 1)


def test_errors_of_the_house_use_codes_that_exist_and_agree_on_retrying() -> None:
    classes = KafkaError.__subclasses__()

    for each in classes:
        assert each.code in ErrorCode._value2member_map_, each
        assert each.retriable == (each.code in RETRIABLE), each
