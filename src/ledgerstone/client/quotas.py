"""Quotas: read, set, remove. Shell over a `Client`."""

from collections.abc import Mapping

from ledgerstone.client.blocking import Client
from ledgerstone.client.errors import check
from ledgerstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
)
from ledgerstone.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ledgerstone.quotas.entities import QuotaEntity


def describe_quotas(client: Client) -> dict[QuotaEntity, dict[str, float]]:
    """All that are set."""
    response = client.call(DescribeClientQuotasRequest(), DescribeClientQuotasResponse)
    check(response.error_code, "quotas", response.error_message)
    return {
        QuotaEntity.of({part.entity_type: part.entity_name for part in entry.entity}): {
            each.key: each.value for each in entry.values
        }
        for entry in response.entries or ()
    }


def alter_quotas(
    client: Client,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Sets each key to its value; None removes it."""
    entry = AlterClientQuotasRequestEntry(
        entity=[AlterClientQuotasEntity(kind, name) for kind, name in entity.parts],
        ops=[
            AlterClientQuotasOp(key, 0.0 if value is None else value, value is None)
            for key, value in changes.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    response = client.call(request, AlterClientQuotasResponse)
    for result in response.entries:
        check(result.error_code, f"{entity}", result.error_message)
