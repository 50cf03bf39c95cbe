"""Quotas on the page: what is set, and who waits."""

from ledgerstone.protocol.messages.produce import ProduceResponse
from tests.kit.logs import batch
from tests.unit.server.asks import create_topic, produce
from tests.unit.server.erasing_kit import ErasingMachine
from tests.unit.server.quota_kit import client_of, set_quota
from tests.web.kit import Parsed, Visitor


def test_page_shows_limits_and_who_had_to_wait(machine: ErasingMachine, visitor: Visitor) -> None:
    create_topic(machine.connect())
    empty = Parsed(str(visitor.get("/quotas").body)).text
    set_quota(machine, {"user": "<b>ann", "client-id": None}, producer_byte_rate=100)
    client = client_of(machine, "<b>ann", "loader")
    client.ask(produce(batch(("k", "v" * 2000))), ProduceResponse)

    page = str(visitor.get("/quotas").body)
    text = Parsed(page).text

    assert "Nobody." in empty
    assert "<b>ann" not in page
    assert "user, default client id" in text
    assert "loader" in text
    assert "1 connection of this broker waits now" in text
