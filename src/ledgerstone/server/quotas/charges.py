"""Which counters the requests of a connection count on. Pure."""

from typing import NamedTuple

from ledgerstone.quotas.counters import RateCounter
from ledgerstone.security.principal import Principal


class Charges(NamedTuple):
    """For one principal and client id, until quotas change. None: nobody has one of that key."""

    principal: Principal
    client_id: str | None
    generation: int
    produce: RateCounter | None
    fetch: RateCounter | None
    request: RateCounter | None
    # What a fetch may ask for without having to wait for certain.
    most_fetched: int
