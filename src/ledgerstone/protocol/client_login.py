"""What a connection of ours says to log in, step by step. Pure; `security` has the mechanisms."""

from typing import Protocol

from ledgerstone.protocol.wire import ProtocolViolation


class LoginFailed(ProtocolViolation):
    """The broker refused, or could not prove itself. To try again would not help. `code` is
    Kafka's."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def renewal_ms(lifetime_ms: int) -> int:
    """When to log in again: before the end, with time to spare for a slow answer."""
    return lifetime_ms * 17 // 20


class ClientLogin(Protocol):
    """Lives for one login. `respond` takes what the broker said last, also after the last step."""

    @property
    def mechanism(self) -> str: ...

    def begin(self) -> bytes: ...

    def respond(self, data: bytes) -> bytes | None:
        """None: nothing is left to say. LoginFailed: the broker does not keep the rules."""
        ...
