"""Quotas as tests set them, and clients with names."""

from collections.abc import Mapping

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
)
from ledgerstone.security.principal import Principal
from tests.kit.in_process import Client, InProcess

Parts = Mapping[str, str | None]


def set_quota(machine: InProcess, parts: Parts, **limits: float | None) -> None:
    """From a connection of its own, which nothing else counts on. None removes."""
    admin = machine.connect(host="10.9.9.9")
    admin.client_id = "admin"
    entry = AlterClientQuotasRequestEntry(
        entity=[AlterClientQuotasEntity(kind, name) for kind, name in parts.items()],
        ops=[
            AlterClientQuotasOp(key, value or 0.0, value is None) for key, value in limits.items()
        ],
    )
    answer = admin.ask(AlterClientQuotasRequest(entries=[entry]), AlterClientQuotasResponse)
    assert [each.error_code for each in answer.entries] == [ErrorCode.NONE]
    admin.leave()


def client_of(machine: InProcess, user: str = "ann", client_id: str | None = "c") -> Client:
    client = machine.connect()
    client.client_id = client_id
    machine.broker.peers.by_number[client.number].session.principal = Principal("User", user)
    return client


def muted_ms(client: Client) -> int:
    """How long it still has to wait."""
    machine = client.machine
    until_ms = machine.broker.peers.by_number[client.number].session.muted_until_ms
    return max(0, until_ms - machine.clock.monotonic_ms())
