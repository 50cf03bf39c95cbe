"""How far one connection has come with its login, and how long that counts. Pure."""

from ledgerstone.dataclasses import dataclass
from ledgerstone.security.exchange import ServerLogin
from ledgerstone.security.principal import Principal


@dataclass(slots=True, eq=False)
class SaslState:
    """Times are monotonic. `exchange` is there from the handshake to the end of the login."""

    began_ms: int
    mechanism: str = ""
    exchange: ServerLogin | None = None
    steps: int = 0
    has_asked_versions: bool = False
    # After a handshake of version 0, tokens come without Kafka's headers.
    is_raw: bool = False
    # Version 0 of SaslAuthenticate has no field for the lifetime.
    hears_lifetime: bool = False
    expires_ms: int | None = None
    # Set while the client logs in again: nothing of it may change.
    before: "LoggedIn | None" = None
    # Of the last time it began to log in again; it may once a second.
    again_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LoggedIn:
    principal: Principal
    mechanism: str
