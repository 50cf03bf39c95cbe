"""Exceptions of a client: the broker's errors, and failures to reach it. Pure.

A code that has a class in `ledgerstone.errors` becomes that class, so a caller catches
`TopicAlreadyExists` and not a number; every other code is a `BrokerError`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ledgerstone import errors
from ledgerstone.errors import KafkaError, LedgerstoneError
from ledgerstone.protocol.error_codes import RETRIABLE, ErrorCode


class BrokerError(KafkaError):
    """An error code without a class of its own."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        # Other errors have a code per class; here each instance has its own.
        self.code = code  # type: ignore[misc]
        self.retriable = code in RETRIABLE  # type: ignore[misc]
        self.name = name


class BrokerUnreachable(LedgerstoneError):
    """No broker of the cluster takes a connection."""


class CallTimedOut(LedgerstoneError):
    """The deadline of a call passed; the message has the last failure."""


def _classes_by_code() -> Mapping[int, type[KafkaError]]:
    found = {}
    for each in vars(errors).values():
        if isinstance(each, type) and issubclass(each, KafkaError) and "code" in vars(each):
            found[each.code] = each
    del found[KafkaError.code]
    return MappingProxyType(found)


_BY_CODE: Final = _classes_by_code()


def name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error code {code}"


def error_of(code: int, subject: str, message: str | None = None) -> KafkaError:
    """The exception for a code; `subject` names the request, `message` is the broker's."""
    name = name_of(code)
    text = f"{subject}: {name}" if not message else f"{subject}: {name}: {message}"
    known = _BY_CODE.get(code)
    return BrokerError(code, name, text) if known is None else known(text)


def check(code: int, subject: str, message: str | None = None) -> None:
    if code != ErrorCode.NONE:
        raise error_of(code, subject, message)
