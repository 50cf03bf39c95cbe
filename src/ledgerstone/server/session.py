"""What a connection is to the rules of the broker: its listener, its principal, its rights to be
served. Pure.

Made when a connection is accepted, and carried by every request of it. Later stages change it: a
login sets the principal, a quota mutes.
"""

import enum
from typing import Final

from ledgerstone.config.security_protocol import SecurityProtocol
from ledgerstone.dataclasses import dataclass
from ledgerstone.security.authorizer import Rights
from ledgerstone.security.principal import ANONYMOUS, Principal
from ledgerstone.server.login.state import SaslState
from ledgerstone.server.quotas.charges import Charges

DEFAULT_LISTENER: Final = "PLAINTEXT"


class Login(enum.Enum):
    """How far a connection has come in proving its principal."""

    AWAITED = "takes ApiVersions and SaslHandshake only"
    UNDER_WAY = "takes SaslAuthenticate only"
    COMPLETE = "takes every request; from the start where the listener asks for no login"


@dataclass(slots=True, eq=False)
class Session:
    """`muted_until_ms` is monotonic time, and 0 while the connection is not muted. Only `Peers`
    sets it. A muted connection is neither read nor served; what it sent ahead waits."""

    host: str
    listener: str = DEFAULT_LISTENER
    principal: Principal = ANONYMOUS
    login: Login = Login.COMPLETE
    muted_until_ms: int = 0
    # One of `controller.listener.names`: nodes of the cluster ask here.
    is_controller_listener: bool = False
    # Counters of its last client id, while quotas are set; only `ClientQuotas` sets them.
    charges: Charges | None = None
    # What the principal may do, once a request was authorised; None: nobody is refused anything.
    rights: Rights | None = None
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    # Of a listener that asks for a login.
    sasl: SaslState | None = None
