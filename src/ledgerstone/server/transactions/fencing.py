"""How a fenced producer is told in the version it speaks. Pure."""

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.server.request import Request


def as_understood(code: int, request: Request, first_version: int) -> int:
    """PRODUCER_FENCED came late: clients before `first_version` know INVALID_PRODUCER_EPOCH."""
    if code == ErrorCode.PRODUCER_FENCED and request.api_version < first_version:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
