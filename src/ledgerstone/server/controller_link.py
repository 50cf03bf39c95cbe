"""How a broker has the cluster's metadata changed: it asks the controller, wherever that is.

Grade D. Here the controller is this process, the leader of a metadata quorum with one voter, and a
request becomes a decision at once. Its records are appended, and nothing of it is shown or answered
before they are committed; then the image is published, and the answer follows. A controller on
another node will be asked through the same door, by forwarding the request.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.not_controller import not_controller
from ledgerstone.metadata.replay import Replayed
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.replication.state_log import StateLog
from ledgerstone.server.metadata_log import MetadataLog, record_parts

# Called once with the answer, in the turn in which it was asked for or in a later one.
OnAnswer = Callable[[ApiMessage], None]


class MetadataSubscriber(Protocol):
    """Who follows the metadata: told of every committed batch, in order."""

    def metadata_committed(self, applied: Replayed) -> None: ...

    def metadata_refused(self, error: Exception) -> None:
        """The log took no more records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposal:
    """A decision on its way; `applied` is what it makes of the decided image."""

    applied: Replayed | None = None
    request: ApiMessage | None = None
    response: ApiMessage | None = None
    on_answer: OnAnswer | None = None


class ControllerLink:
    def __init__(self, log: MetadataLog, controller: Controller) -> None:
        self.log = log
        self.subscriber: MetadataSubscriber | None = None
        self._controller = controller
        self._proposals = StateLog[_Proposal](log.append)
        self._is_settling = False

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self._controller.committed

    @property
    def controller_id(self) -> int:
        """The node that decides now; NO_LEADER while an election is under way. Not a part of the
        image: the quorum elects its leader, no record names it."""
        leader_id = self.log.leader_id
        return NO_LEADER if leader_id is None else leader_id

    @property
    def in_flight(self) -> int:
        return len(self._proposals)

    def ask(self, request: ApiMessage, on_answer: OnAnswer, *, by_broker: bool = False) -> None:
        """A request that changes metadata. A log that refuses the records raises: then nothing of
        them is true. `by_broker`: for a topic that the broker alone may make."""
        if not self.log.is_leader:
            on_answer(not_controller(request))
            return
        decision = self._controller.decide(
            request,
            now_ms=self.log.log.clock.monotonic_ms(),
            next_offset=self.log.log.log_end_offset,
            by_broker=by_broker,
        )
        self._propose(decision.records, request, decision.response, on_answer)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        """Records that no request asked for."""
        self._propose(records)

    def _propose(
        self,
        records: Sequence[MetadataRecord],
        request: ApiMessage | None = None,
        response: ApiMessage | None = None,
        on_answer: OnAnswer | None = None,
    ) -> None:
        if not records:
            # It may rest on decisions that are not committed yet.
            self._proposals.after_pending(
                _Proposal(request=request, response=response, on_answer=on_answer)
            )
            self.settle()
            return
        applied = self._controller.preview(records)
        proposal = _Proposal(
            applied=applied, request=request, response=response, on_answer=on_answer
        )
        is_appended = False
        try:
            self._proposals.append(record_parts(self.log.log.clock.now_ms(), records), proposal)
            is_appended = True
            self._controller.decided_on(applied)
            self.log.sync()
        except (KafkaError, StorageError, OSError) as error:
            if is_appended:
                # Whether it is on disk is not known, so nothing may be built on it. The caller
                # learns that from the error, those before it from an answer.
                self._give_up(asking=proposal)
            if self.subscriber is not None:
                self.subscriber.metadata_refused(error)
            raise
        self.settle()

    def settle(self) -> None:
        """The high watermark has moved: publishes and answers what is committed, in order. What is
        asked for meanwhile waits for its turn."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while proposals := self._proposals.committed(self.log.log.high_watermark):
                for each in proposals:
                    self._carry_out(each)
        finally:
            self._is_settling = False

    def _carry_out(self, proposal: _Proposal) -> None:
        if proposal.applied is not None:
            self._controller.committed_to(proposal.applied)
            if self.subscriber is not None:
                self.subscriber.metadata_committed(proposal.applied)
        if proposal.on_answer is not None:
            assert proposal.response is not None
            proposal.on_answer(proposal.response)

    def leadership_lost(self) -> None:
        """Another node decides from now on. What was decided here and not committed may still be,
        by that node: whoever waits for it is told NOT_CONTROLLER, and never success."""
        self._give_up()

    def _give_up(self, asking: _Proposal | None = None) -> None:
        self._controller.resign()
        for each in self._proposals.lost():
            if each is not asking and each.on_answer is not None:
                assert each.request is not None
                each.on_answer(not_controller(each.request))
