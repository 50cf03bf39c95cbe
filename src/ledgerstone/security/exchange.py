"""What a login says on each step, whatever its mechanism. Pure.

A server side takes what a client said and answers with `Challenge` or `Accepted`, or raises
`LoginRefused`. What a client says is `protocol.client_login`. One object lives for one login, and
is not used after it has ended.
"""

from typing import Final, NamedTuple, Protocol

# Challenges of one login. SCRAM has two, OAUTHBEARER one; nobody honest needs more.
MAX_STEPS: Final = 4
# Named here, as its own module takes cryptography with it.
OAUTHBEARER: Final = "OAUTHBEARER"


class LoginRefused(Exception):
    """`public` may be told to the client; None: only that the credentials do not do. `args` are for
    the log, and hold no secret."""

    def __init__(self, reason: str, public: str | None = None) -> None:
        super().__init__(reason)
        self.public = public


class Challenge(NamedTuple):
    data: bytes


class Accepted(NamedTuple):
    """`data` is the last thing that the client is told. `expires_ms` is when the credentials end,
    in wall time; None: they do not."""

    data: bytes
    name: str
    expires_ms: int | None = None


class ServerLogin(Protocol):
    def respond(self, data: bytes) -> Challenge | Accepted: ...


def other_authorization_id(own: str = "username") -> LoginRefused:
    """Nobody here acts for others (CVE-2017-12610)."""
    reason = (
        f"Authentication failed: Client requested an authorization id that is different from {own}"
    )
    return LoginRefused(reason, reason)
