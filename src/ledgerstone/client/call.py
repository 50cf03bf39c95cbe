"""The life of one request: where it goes next, when it is retried, when it has failed. Pure.

A shell drives a `Call` in a loop: it asks for the next step, performs it, and reports the result.
Lookups, such as finding a group's coordinator, are steps like any other.
"""

from typing import Final

from ledgerstone.client.errors import BrokerUnreachable, CallTimedOut, check, error_of, name_of
from ledgerstone.client.reactions import Reaction, refusal_in
from ledgerstone.client.routing import Coordinator, Target, ToBroker
from ledgerstone.client.session import ClientSession, LinkId
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import APIS, ApiKey
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorResponse
from ledgerstone.protocol.messages.metadata import MetadataResponse
from ledgerstone.protocol.messages.produce import ProduceRequest, ProduceResponse

# Their responses are large and carry an error code per partition.
_READ_BY_PARTITION: Final = (ApiKey.PRODUCE, ApiKey.FETCH)
# Later versions promise that the client speaks transactions of version 2.
_LAST_VERSIONS: Final = {ApiKey.PRODUCE: 11, ApiKey.END_TXN: 4, ApiKey.TXN_OFFSET_COMMIT: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class SendRequest:
    """Send this, connecting first if necessary; then report `answered`, or `failed`."""

    link: LinkId
    request: ApiMessage
    at_most_version: int
    expects_response: bool
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    response: ApiMessage


Step = SendRequest | Pause | Answered


class Call:
    """One request, until its response, its error or its deadline.

    After every `SendRequest` comes one report: `answered`, `sent_without_response` or `failed`.
    With `one_try` a broken connection ends the call, and its owner decides where to try next.
    `at_most` is the newest version to use, where a newer one means something else.
    """

    def __init__(
        self,
        session: ClientSession,
        request: ApiMessage,
        target: Target,
        *,
        now_ms: int,
        timeout_ms: int | None = None,
        one_try: bool = False,
        at_most: int | None = None,
    ) -> None:
        limit_ms = session.config.call_timeout_ms if timeout_ms is None else timeout_ms
        self.session = session
        self.request = request
        self.target = target
        self._started_ms = now_ms
        self._deadline_ms = now_ms + limit_ms
        self._resume_ms = now_ms
        self._one_try = one_try
        self._at_most = at_most
        self._failures = 0
        self._trouble = "nothing was tried"
        self._sent: SendRequest | None = None
        self._has_choice = False  # the last request could have gone to another broker
        self._response: ApiMessage | None = None

    def __str__(self) -> str:
        return f"{self.request.name} to {self.target}"

    def next_step(self, now_ms: int) -> Step:
        if self._response is not None:
            return Answered(response=self._response)
        if now_ms >= self._deadline_ms:
            waited_ms = now_ms - self._started_ms
            raise CallTimedOut(f"{self}: no answer in {waited_ms} ms: {self._trouble}")
        if now_ms < self._resume_ms:
            return self._wait(self._resume_ms - now_ms, now_ms)
        chosen = self.session.resolve(self.target)
        question = self.request if chosen is None or isinstance(chosen, LinkId) else chosen
        self._has_choice = not isinstance(chosen, LinkId)
        link = chosen if isinstance(chosen, LinkId) else self.session.any_link(now_ms)
        if not isinstance(link, LinkId):
            return self._wait_for_a_broker(link, now_ms)
        muted_ms = self.session.muted_ms(link, now_ms)
        if muted_ms > 0:
            self._trouble = f"{link.endpoint} asked for a pause"
            return self._wait(muted_ms, now_ms)
        return self._send(link, question, now_ms)

    def _wait(self, duration_ms: int, now_ms: int) -> Pause:
        return Pause(duration_ms=min(duration_ms, self._deadline_ms - now_ms))

    def _wait_for_a_broker(self, duration_ms: int, now_ms: int) -> Pause:
        session = self.session
        waited_ms = now_ms - self._started_ms
        if not session.was_reached and waited_ms >= session.config.reach_timeout_ms:
            tried = ", ".join(map(str, session.bootstrap))
            raise BrokerUnreachable(f"no broker at {tried}: {self._trouble}")
        return self._wait(duration_ms, now_ms)

    def _send(self, link: LinkId, question: ApiMessage, now_ms: int) -> SendRequest:
        offered = OFFERED.get(question.api_key)
        last_version = APIS[question.api_key].last_version if offered is None else offered.last
        last_version = _LAST_VERSIONS.get(ApiKey(question.api_key), last_version)
        if self._at_most is not None and question is self.request:
            last_version = self._at_most
        self._sent = SendRequest(
            link=link,
            request=question,
            at_most_version=last_version,
            expects_response=not (isinstance(question, ProduceRequest) and question.acks == 0),
            timeout_ms=self._deadline_ms - now_ms,
        )
        return self._sent

    # -- what came of it -----------------------------------------------------------------------

    def sent_without_response(self) -> None:
        assert self._sent is not None, "nothing was sent"
        assert not self._sent.expects_response, f"{self} expects a response"
        self._response = ProduceResponse()

    def answered(self, response: ApiMessage, now_ms: int) -> None:
        """Takes the response to the last request. Raises errors that a retry cannot fix."""
        assert self._sent is not None, "an answer to nothing"
        self.session.reached(self._sent.link, response, now_ms)
        if self._sent.request is self.request:
            self._take(response, now_ms)
        elif isinstance(response, MetadataResponse):
            self._check_broker()
        elif isinstance(response, FindCoordinatorResponse):
            self._take_coordinator(response, now_ms)

    def failed(self, reason: str, now_ms: int) -> None:
        """The connection could not be made, or broke, or stayed silent."""
        assert self._sent is not None, "a failure of nothing"
        link = self._sent.link
        self.session.lost(link, now_ms)
        self._trouble = f"{link.endpoint}: {reason}"
        if self._one_try and self._sent.request is self.request:
            raise error_of(ErrorCode.NETWORK_EXCEPTION, f"{self}", self._trouble)
        if not self._has_choice:
            # With a choice, the next endpoint is tried at once; this one has its own pause.
            self._pause(now_ms)

    def _take(self, response: ApiMessage, now_ms: int) -> None:
        by_partition = self.request.api_key in _READ_BY_PARTITION
        refusal = None if by_partition else refusal_in(response)
        if refusal is None:
            self._response = response
        else:
            self._refused(refusal, now_ms)

    def _check_broker(self) -> None:
        brokers = self.session.cluster.brokers
        if isinstance(self.target, ToBroker) and self.target.node_id not in brokers:
            known = ", ".join(map(str, sorted(brokers))) or "none"
            raise error_of(ErrorCode.BROKER_NOT_AVAILABLE, f"{self}", f"known brokers: {known}")

    def _take_coordinator(self, response: FindCoordinatorResponse, now_ms: int) -> None:
        assert isinstance(self.target, Coordinator), f"{self} asked for a coordinator"
        code = self.session.learn_coordinator(self.target, response)
        if code != ErrorCode.NONE:
            self._refused(code, now_ms)

    def _refused(self, code: int, now_ms: int) -> None:
        if self.session.react(code, self.target) is Reaction.FAIL:
            check(code, f"{self}")
        self._trouble = name_of(code)
        self._pause(now_ms)

    def _pause(self, now_ms: int) -> None:
        self._failures += 1
        self._resume_ms = now_ms + self.session.backoff.after(self._failures)
