"""AlterClientQuotas and DescribeClientQuotas: what they do, and every reason to refuse."""

import math

import pytest

from ledgerstone.metadata.quota_changes import MatchType, describe_client_quotas
from ledgerstone.metadata.replay import apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
)
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
)
from ledgerstone.quotas.entities import QuotaEntity
from tests.unit.metadata.cluster import Cluster

NONE, REFUSED = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
EXACT, DEFAULT, ANY = MatchType
IN, OUT = "producer_byte_rate", "consumer_byte_rate"

Parts = dict[str, str | None]
Op = tuple[str, float | None]


def entry(parts: Parts, *ops: Op) -> AlterClientQuotasRequestEntry:
    return AlterClientQuotasRequestEntry(
        entity=[AlterClientQuotasEntity(kind, name) for kind, name in parts.items()],
        ops=[AlterClientQuotasOp(key, value or 0.0, value is None) for key, value in ops],
    )


def alter(
    cluster: Cluster, *entries: AlterClientQuotasRequestEntry, validate_only: bool = False
) -> list[int]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    answer = cluster.ask(request)
    assert [each.entity for each in answer.entries] == [each.entity for each in entries]
    return [each.error_code for each in answer.entries]


def limits(cluster: Cluster, parts: Parts) -> dict[str, float]:
    return dict(cluster.image.client_quotas.get(QuotaEntity.of(parts), {}))


def test_quotas_are_set_changed_and_removed_key_by_key() -> None:
    cluster = Cluster()

    first = alter(
        cluster, entry({"user": "a"}, (IN, 5.0), (OUT, 6.0)), entry({"user": None}, (IN, 1.0))
    )
    then = alter(cluster, entry({"user": "a"}, (IN, 7.0), (OUT, None)))

    assert (first, then) == ([NONE, NONE], [NONE])
    assert limits(cluster, {"user": "a"}) == {IN: 7.0}
    assert limits(cluster, {"user": None}) == {IN: 1.0}


def test_what_does_not_change_writes_nothing_and_what_is_not_set_may_be_removed() -> None:
    cluster = Cluster()
    alter(cluster, entry({"user": "a"}, (IN, 5.0)))
    before = len(cluster.log)

    codes = alter(cluster, entry({"user": "a"}, (IN, 5.0), ("no such key", None), (OUT, None)))

    assert codes == [NONE]
    assert len(cluster.log) == before


def test_validation_alone_answers_the_same_and_changes_nothing() -> None:
    cluster = Cluster()

    good = alter(cluster, entry({"user": "a"}, (IN, 5.0)), validate_only=True)
    bad = alter(cluster, entry({"user": "a"}, (IN, 0.0)), validate_only=True)

    assert (good, bad) == ([NONE], [REFUSED])
    assert not cluster.image.client_quotas


@pytest.mark.parametrize(
    "refused",
    [
        entry({}, (IN, 1.0)),
        entry({"user": ""}, (IN, 1.0)),
        entry({"planet": "mars"}, (IN, 1.0)),
        entry({"ip": "10.0.0.1", "user": "a"}, (IN, 1.0)),
        entry({"ip": "not an address"}, ("connection_creation_rate", 1.0)),
        entry({"ip": "10.0.0.1"}, (IN, 1.0)),
        entry({"user": "a"}, ("connection_creation_rate", 1.0)),
        entry({"user": "a"}, ("nonsense", 1.0)),
        entry({"user": "a"}, (IN, 1.0), (IN, 2.0)),
        *(
            entry({"user": "a"}, (IN, value))
            for value in (0.0, -1.0, 1.5, 2.0**64, math.nan, math.inf)
        ),
    ],
)
def test_refused_entity_keeps_what_it_has_and_does_not_stop_the_others(
    refused: AlterClientQuotasRequestEntry,
) -> None:
    cluster = Cluster()
    alter(cluster, entry({"user": "a"}, (OUT, 3.0)))

    codes = alter(cluster, refused, entry({"client-id": "c"}, (IN, 9.0)))

    assert codes == [REFUSED, NONE]
    assert limits(cluster, {"user": "a"}) == {OUT: 3.0}
    assert limits(cluster, {"client-id": "c"}) == {IN: 9.0}


def test_one_bad_value_refuses_all_changes_of_its_entity() -> None:
    cluster = Cluster()

    codes = alter(cluster, entry({"user": "a"}, (IN, 5.0), (OUT, -1.0)))

    assert codes == [REFUSED]
    assert limits(cluster, {"user": "a"}) == {}


def test_entity_named_twice_is_refused_both_times() -> None:
    cluster = Cluster()

    codes = alter(cluster, entry({"user": "a"}, (IN, 5.0)), entry({"user": "a"}, (IN, 6.0)))

    assert codes == [REFUSED, REFUSED]
    assert not cluster.image.client_quotas


def test_address_is_kept_in_one_way_of_writing_it() -> None:
    cluster = Cluster()

    alter(cluster, entry({"ip": "0:0:0:0:0:ffff:10.0.0.1"}, ("connection_creation_rate", 5.0)))

    assert limits(cluster, {"ip": "10.0.0.1"}) == {"connection_creation_rate": 5.0}


def test_snapshot_has_every_quota() -> None:
    cluster = Cluster()
    alter(
        cluster,
        entry({"user": "a/b ,=ü", "client-id": None}, (IN, 5.0), ("request_percentage", 2.5)),
        entry({"ip": None}, ("connection_creation_rate", 5.0)),
    )

    again = apply(Cluster().controller.committed, snapshot_records(cluster.image)).image

    assert again.client_quotas == cluster.image.client_quotas


# -- describing ----------------------------------------------------------------------------------


ENTITIES: list[Parts] = [
    {"user": "a"},
    {"user": "b"},
    {"user": None},
    {"client-id": "c"},
    {"client-id": None},
    {"user": "a", "client-id": "c"},
    {"user": "a", "client-id": None},
    {"user": None, "client-id": None},
]


def filled() -> Cluster:
    cluster = Cluster()
    alter(cluster, *(entry(parts, (IN, 5.0)) for parts in ENTITIES))
    alter(cluster, entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 5.0)))
    return cluster


Component = tuple[str, int, str | None]


def described(*components: Component, strict: bool) -> list[Parts]:
    request = DescribeClientQuotasRequest(
        components=[DescribeClientQuotasComponent(*each) for each in components], strict=strict
    )
    answer = describe_client_quotas(filled().image, request)
    assert answer.error_code == NONE
    assert answer.entries is not None
    return [{part.entity_type: part.entity_name for part in each.entity} for each in answer.entries]


@pytest.mark.parametrize(
    ("component", "strictly", "loosely"),
    [
        (("user", EXACT, "a"), 1, 3),
        (("user", EXACT, "nobody"), 0, 0),
        (("user", DEFAULT, None), 1, 2),
        (("user", ANY, None), 3, 6),
        (("client-id", EXACT, "c"), 1, 2),
        (("client-id", DEFAULT, None), 1, 3),
        (("client-id", ANY, None), 2, 5),
        (("ip", EXACT, "::ffff:10.0.0.1"), 1, 1),
    ],
)
def test_one_component(component: Component, strictly: int, loosely: int) -> None:
    assert len(described(component, strict=True)) == strictly
    assert len(described(component, strict=False)) == loosely


def test_two_components_name_entities_that_have_both() -> None:
    found = described(("user", EXACT, "a"), ("client-id", ANY, None), strict=True)

    assert found == [{"client-id": "c", "user": "a"}, {"client-id": None, "user": "a"}]


def test_no_component_means_all_or_strictly_none() -> None:
    assert len(described(strict=False)) == len(ENTITIES) + 1
    assert described(strict=True) == []


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("planet", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("", ANY, None)], REFUSED),
        ([("user", ANY, None), ("user", ANY, None)], REFUSED),
        ([("user", EXACT, None)], REFUSED),
        ([("user", DEFAULT, "a")], REFUSED),
        ([("user", ANY, "a")], REFUSED),
        ([("user", 3, None)], REFUSED),
        ([("ip", ANY, None), ("user", ANY, None)], REFUSED),
    ],
)
def test_questions_that_are_refused(components: list[Component], code: int) -> None:
    request = DescribeClientQuotasRequest(
        components=[DescribeClientQuotasComponent(*each) for each in components]
    )

    answer = describe_client_quotas(filled().image, request)

    assert (answer.error_code, answer.entries) == (code, None)
