"""AlterClientQuotas and DescribeClientQuotas. Pure: image and request in, records or entries out.

Each entity is judged by itself: all of its changes, or none. Rules in README.md.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Final

from ledgerstone.errors import InvalidRequest, KafkaError, UnsupportedVersion
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.record_images import quota_record
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntry,
)
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasEntity,
    DescribeClientQuotasEntry,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasValue,
)
from ledgerstone.quotas.entities import (
    EntityType,
    QuotaEntity,
    check_value,
    checked_entity,
    plain_address,
)

_TYPES: Final = frozenset(EntityType)


class MatchType(IntEnum):
    """The wire's values."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


def alter_client_quotas(
    image: MetadataImage, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    times = Counter(_label(each.entity) for each in request.entries)
    response = AlterClientQuotasResponse()
    records: list[MetadataRecord] = []
    for entry in request.entries:
        result = AlterClientQuotasResponseEntry(entity=entry.entity)
        response.entries.append(result)
        try:
            # Differs from Kafka: there the first one is applied, and the answer says it was not.
            if times[_label(entry.entity)] > 1:
                raise InvalidRequest("the entity is named more than once")
            records += _changes(image, entry.entity, entry.ops)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, reason_of(error)
    return Decision([] if request.validate_only else records, response)


def _label(parts: Sequence[AlterClientQuotasEntity]) -> tuple[tuple[str, bool, str], ...]:
    named = ((each.entity_type, each.entity_name) for each in parts)
    return tuple(sorted((kind, name is None, name or "") for kind, name in named))


def _changes(
    image: MetadataImage,
    parts: Sequence[AlterClientQuotasEntity],
    ops: Sequence[AlterClientQuotasOp],
) -> list[MetadataRecord]:
    entity = checked_entity((each.entity_type, each.entity_name) for each in parts)
    before = image.client_quotas.get(entity, {})
    records: list[MetadataRecord] = []
    for key, count in Counter(op.key for op in ops).items():
        if count > 1:
            raise InvalidRequest(f"{key!r} is named more than once")
    for op in ops:
        if not op.remove:
            check_value(entity, op.key, op.value)
            if before.get(op.key) != op.value:
                records.append(quota_record(entity, op.key, op.value))
        elif op.key in before:
            records.append(quota_record(entity, op.key, None))
    return records


def describe_client_quotas(
    image: MetadataImage, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """A question that Kafka does not understand is refused as there; then the entries are null."""
    try:
        wanted = dict(_wanted(request.components))
        if EntityType.IP in wanted and len(wanted) > 1:
            raise InvalidRequest("an address has no quotas together with a user or a client id")
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=reason_of(error))
    entries = [
        _described(image, entity)
        for entity in image.client_quotas
        if _matches(entity, wanted, is_strict=request.strict)
    ]
    return DescribeClientQuotasResponse(error_message="", entries=entries)


# The name that a part must have, None for the default; or any.
_Wish = str | MatchType | None


def _wanted(
    components: Sequence[DescribeClientQuotasComponent],
) -> Iterator[tuple[str, _Wish]]:
    seen: set[str] = set()
    for each in components:
        if not each.entity_type:
            raise InvalidRequest("an entity type without a name")
        if each.entity_type in seen:
            raise InvalidRequest(f"entity type {each.entity_type!r} is named more than once")
        seen.add(each.entity_type)
        if each.entity_type not in _TYPES:
            raise UnsupportedVersion(f"there is no entity type {each.entity_type!r}")
        if each.match_type not in tuple(MatchType):
            raise InvalidRequest(f"there is no match type {each.match_type}")
        if (each.match_type == MatchType.EXACT) != (each.match is not None):
            raise InvalidRequest("an exact match needs a name, and only that")
        if each.match_type == MatchType.ANY:
            yield each.entity_type, MatchType.ANY
        else:
            yield each.entity_type, _name_of(each)


def _name_of(component: DescribeClientQuotasComponent) -> str | None:
    name = component.match
    if name is None or component.entity_type != EntityType.IP:
        return name
    # They are kept in one way of writing them.
    return plain_address(name) or name


def _matches(entity: QuotaEntity, wanted: dict[str, _Wish], *, is_strict: bool) -> bool:
    if is_strict and (not wanted or len(entity.parts) != len(wanted)):
        return False
    parts = dict(entity.parts)
    return all(
        kind in parts and (wish is MatchType.ANY or parts[kind] == wish)
        for kind, wish in wanted.items()
    )


def _described(image: MetadataImage, entity: QuotaEntity) -> DescribeClientQuotasEntry:
    values = image.client_quotas[entity]
    return DescribeClientQuotasEntry(
        entity=[DescribeClientQuotasEntity(kind, name) for kind, name in entity.parts],
        values=[DescribeClientQuotasValue(key, value) for key, value in values.items()],
    )
