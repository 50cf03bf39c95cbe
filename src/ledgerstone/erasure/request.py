"""A request to erase a key: checked, given an id, and its key sealed. Grade P.

Everything that can be refused is refused here, before anything is written down.
"""

from collections.abc import Sequence
from typing import Final

from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.erasure.audit_headers import check_keeps_secret
from ledgerstone.erasure.erasure import Erasure, Stage, new_id
from ledgerstone.erasure.key_print import PrintKey
from ledgerstone.erasure.sealing import seal
from ledgerstone.errors import InvalidRequest
from ledgerstone.time_text import MAX_TIME_MS, iso_time

MAX_AWAITED_VERIFIERS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureRequest:
    topic: str
    topic_id: bytes
    key: bytes = field(repr=False)
    reason: str
    requested_by: str
    after_ms: int = 0  # how long to wait; until then it can be cancelled
    deadline_ms: int | None = None
    awaited_verifiers: Sequence[str] = ()
    outputs_wait_ms: int | None = None
    within_ms: int | None = None  # in place of `deadline_ms`, from the moment it is taken
    abort_open: bool = False


def new_erasure(
    request: ErasureRequest, *, print_key: PrintKey, dice: Dice, now_ms: int
) -> Erasure:
    """The first state of an erasure, for the journal; InvalidRequest says what is wrong."""
    if request.within_ms is not None and request.deadline_ms is None:
        # Not when the call came: it may have waited, and the clock may have been set since.
        request = replace(request, deadline_ms=now_ms + request.within_ms)
    _check_times(request, now_ms)
    _check_texts(request)
    erasure_id = new_id(dice)
    stage = Stage.SCHEDULED if request.after_ms > 0 else Stage.REQUESTED
    return Erasure(
        id=erasure_id,
        topic=request.topic,
        topic_id=request.topic_id,
        key_print=print_key.print_of(request.topic, request.key),
        sealed_key=seal(request.key, erasure_id=erasure_id, print_key=print_key, dice=dice),
        reason=request.reason,
        requested_by=request.requested_by,
        requested_ms=now_ms,
        due_ms=now_ms + request.after_ms,
        deadline_ms=request.deadline_ms,
        awaited_verifiers=tuple(sorted(dict.fromkeys(request.awaited_verifiers))),
        outputs_wait_ms=request.outputs_wait_ms,
        abort_open=request.abort_open,
        stage=stage,
        stage_times=((stage, now_ms),),
    )


def _check_times(request: ErasureRequest, now_ms: int) -> None:
    if request.after_ms < 0 or now_ms + request.after_ms > MAX_TIME_MS:
        raise InvalidRequest(f"after={request.after_ms} ms is not a time to wait")
    wait_ms = request.outputs_wait_ms
    if wait_ms is not None and not 0 <= wait_ms <= MAX_TIME_MS:
        raise InvalidRequest(f"outputs_wait={wait_ms} ms is not a time to wait")
    if request.deadline_ms is None:
        return
    due_ms = now_ms + request.after_ms
    if not due_ms < request.deadline_ms <= MAX_TIME_MS:
        raise InvalidRequest(
            f"deadline {request.deadline_ms} is not after {due_ms} ({iso_time(due_ms)}), when the "
            f"erasure begins, and at most {MAX_TIME_MS}"
        )


def _check_texts(request: ErasureRequest) -> None:
    check_keeps_secret("reason", request.reason, request.key)
    check_keeps_secret("requested-by", request.requested_by, request.key)
    if len(request.awaited_verifiers) > MAX_AWAITED_VERIFIERS:
        raise InvalidRequest(
            f"{len(request.awaited_verifiers)} verifiers, at most {MAX_AWAITED_VERIFIERS}"
        )
    for name in request.awaited_verifiers:
        check_keeps_secret("verifier", name, request.key)
