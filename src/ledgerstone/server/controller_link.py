"""How a node follows and changes the cluster's metadata, on top of the metadata quorum. Grade D.

Every node consumes committed batches, whoever wrote them, and publishes the image they make. The
node that leads the quorum is the controller: it decides on the decided image, appends the records,
and answers once they are committed. Several decisions are in flight at once. A node that does not
lead forwards requests to the one that does.

A node that loses the lead drops its decided image. Callers that wait get NOT_CONTROLLER: the next
leader may still commit what was appended here.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from ledgerstone.clock import Clock
from ledgerstone.errors import (
    InvariantViolation,
    KafkaError,
    NotController,
    NotLeaderOrFollower,
    RecordListTooLarge,
    StorageError,
)
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.not_controller import not_controller, refusal
from ledgerstone.metadata.records import bootstrap_records, missing_features
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.quotas.mutations import MutationQuota
from ledgerstone.raft.events import Leadership
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.server.controlling.batches import RecordBatch, batches_of
from ledgerstone.server.controlling.committed_image import CommittedImage
from ledgerstone.server.controlling.committed_image import MetadataSubscriber as MetadataSubscriber
from ledgerstone.server.controlling.in_flight import OnAnswer as OnAnswer
from ledgerstone.server.controlling.in_flight import ProposalsInFlight, WaitingCaller
from ledgerstone.server.effects import ConnectionId
from ledgerstone.server.quorum.door import CommittedBatch, MetadataQuorum
from ledgerstone.server.quotas.client_quotas import ClientQuotas, note
from ledgerstone.server.request import Request

_LOG: Final = logging.getLogger(__name__)
_DISK_REFUSALS: Final = (KafkaError, StorageError, OSError)


class _HeartbeatLine(NamedTuple):
    connection: ConnectionId
    broker_epoch: int


UpgradeQuorum = Callable[[int, Callable[[int, str], None]], None]


class Forwarder(Protocol):
    """Carries requests to the active controller on another node."""

    def forward(
        self,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        by_broker: bool = False,
        client: Request | None = None,
    ) -> None:
        """Answers exactly once; REQUEST_TIMED_OUT if no controller answered in time."""
        ...


class ControllerLink:
    """The state machine of the metadata quorum (`door.MetadataStateMachine`)."""

    def __init__(
        self,
        quorum: MetadataQuorum,
        controller: Controller,
        clock: Clock,
        bootstrap: Sequence[MetadataRecord] | None = None,
    ) -> None:
        self.quorum = quorum
        self.forwarder: Forwarder | None = None
        # Raises kraft.version, then calls back with an error code and a reason.
        self.upgrade_quorum: UpgradeQuorum | None = None
        # Of the broker in this process: how much its clients may change.
        self.quotas: ClientQuotas | None = None
        self._controller = controller
        self.committed_image = CommittedImage(controller)
        self._clock = clock
        # What the cluster was formatted with; None: nobody has formatted this node.
        self._bootstrap = bootstrap
        self._in_flight = ProposalsInFlight()
        self._led_epoch: int | None = None
        self._last_controller_id: int | None = None
        # The connection on which each broker was last heard from.
        self._heard_on: dict[int, _HeartbeatLine] = {}
        self._committed_offset = 0
        self._is_settling = False
        # Calls of this node that are under way, as opposed to news from the quorum.
        self._depth = 0

    # -- facts --------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self.committed_image.image

    @property
    def controller_id(self) -> int:
        """The node that decides now; NO_LEADER while an election is under way. Not a part of the
        image: the quorum elects its leader, no record names it."""
        leader_id = self.quorum.leader_id
        return NO_LEADER if leader_id is None else leader_id

    @property
    def is_active(self) -> bool:
        """This node is the controller."""
        return self._led_epoch is not None

    @property
    def expired_sessions(self) -> int:
        """Brokers that this node has fenced because they were silent."""
        return self._controller.sessions.expired_count

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def subscriber(self) -> MetadataSubscriber | None:
        return self.committed_image.subscriber

    @subscriber.setter
    def subscriber(self, subscriber: MetadataSubscriber | None) -> None:
        self.committed_image.subscriber = subscriber

    def forwards(self, client: Request | None) -> bool:
        """Whether a request would be decided elsewhere, if it were made now. Nodes that use a
        controller listener look for the active controller themselves."""
        is_for_this_node = client is not None and client.session.is_controller_listener
        return not self.is_active and self.forwarder is not None and not is_for_this_node

    # -- asking -------------------------------------------------------------------------------

    def ask(
        self,
        request: ApiMessage,
        on_answer: OnAnswer,
        *,
        by_broker: bool = False,
        client: Request | None = None,
    ) -> None:
        """A request that changes metadata. A log that refuses the records raises: then nothing of
        them is true. `by_broker`: for a topic that the broker alone may make. `client`: the request
        of a client that this one is made for; None for what the broker wants itself."""
        if self._led_epoch is None:
            if self.forwarder is not None and self.forwards(client):
                self.forwarder.forward(request, on_answer, by_broker=by_broker, client=client)
            else:
                on_answer(not_controller(request))
            return
        quota = None
        if self.quotas is not None and client is not None and not by_broker:
            now = self._clock.monotonic_ms
            quota = self.quotas.mutation_quota(request, client, self.image, now)
            if quota is not None:
                on_answer = partial(self._say_throttle, quota, on_answer)
        try:
            decision = self._controller.decide(
                request,
                now_ms=self._clock.monotonic_ms(),
                next_offset=self.quorum.end_offset,
                by_broker=by_broker,
                quota=quota,
            )
            batches = self._batches_of(decision)
        except Exception:  # noqa: BLE001 - a fault of ours costs the lead, not the process
            self._resign_over(request.name)
            # Not NOT_CONTROLLER: a retry would take the next controller down, too.
            reason = "the controller failed over this request"
            on_answer(refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR, reason))
            return
        caller = WaitingCaller(request, decision.response, on_answer)
        if decision.kraft_version is None:
            self._take(batches, caller)
        else:
            self._upgrade_quorum(decision, caller)

    def _say_throttle(
        self, quota: MutationQuota, on_answer: OnAnswer, response: ApiMessage
    ) -> None:
        if throttle_ms := quota.throttle_ms():
            setattr(response, "throttle_time_ms", throttle_ms)  # noqa: B010 - all three have it
            note(quota.counter, throttle_ms, self._clock.monotonic_ms())
        on_answer(response)

    def _take(self, batches: list[RecordBatch], caller: WaitingCaller) -> None:
        try:
            self._append(batches)
        except NotController:
            # The quorum has moved on, and will say so.
            self._answer(caller, not_controller(caller.request))
            return
        except RecordListTooLarge:
            # As in Kafka. What must be atomic must fit a batch.
            reason = "Unable to perform excessively large batch operation."
            self._answer(caller, refusal(caller.request, ErrorCode.POLICY_VIOLATION, reason))
            return
        self._in_flight.answer_later(caller)
        self._go_on(bool(batches), caller)

    def _upgrade_quorum(self, decision: Decision[Any], caller: WaitingCaller) -> None:
        """kraft.version is the quorum's own. The rest of the decision follows once it has moved."""
        epoch, version = self._led_epoch, decision.kraft_version
        assert version is not None

        def upgraded(code: int, reason: str) -> None:
            if code:
                self._answer(caller, refusal(caller.request, code, reason))
            elif self._led_epoch != epoch:
                self._answer(caller, not_controller(caller.request))
            else:
                self._take(self._batches_of(decision), caller)

        if self.upgrade_quorum is None:
            upgraded(ErrorCode.INVALID_UPDATE_VERSION, "this quorum cannot be upgraded")
        else:
            self.upgrade_quorum(version, upgraded)

    def heard_from(
        self, heartbeat: BrokerHeartbeatRequest, connection: ConnectionId | None = None
    ) -> None:
        """Before anything waits: a slow controller must not fence the brokers it keeps waiting."""
        if self._led_epoch is not None:
            broker_id, epoch = heartbeat.broker_id, heartbeat.broker_epoch
            self._controller.sessions.contact(broker_id, epoch, self._clock.monotonic_ms())
            if connection is not None:
                self._heard_on[broker_id] = _HeartbeatLine(connection, epoch)

    def disconnected(self, connection: ConnectionId) -> None:
        """Brokers that were last heard from on this connection may be gone."""
        for broker_id, line in list(self._heard_on.items()):
            if line.connection == connection:
                del self._heard_on[broker_id]
                now_ms = self._clock.monotonic_ms()
                self._controller.sessions.hung_up(broker_id, line.broker_epoch, now_ms)

    @property
    def next_deadline_ms(self) -> int | None:
        """When a decision may be due by the clock; None: none, or another node decides."""
        return None if self._led_epoch is None else self._controller.next_deadline_ms

    def act_on_time(self) -> bool:
        """Takes one decision that is due by the clock; returns whether there was one. What it
        changes is in the decided image before the next one is taken."""
        epoch = self._led_epoch
        if epoch is None:
            return False
        try:
            decision = self._controller.due(self._clock.monotonic_ms())
            batches = [] if decision is None else self._batches_of(decision)
        except Exception:  # noqa: BLE001 - as in `ask`
            self._resign_over("none")
            return False
        try:
            self._append(batches)
            self._go_on(bool(batches))
        except _DISK_REFUSALS:
            # The next leader starts from what is committed, so nothing that was due is forgotten.
            # A sole voter leads again at once, which takes a record: the disk may refuse that, too.
            with suppress(*_DISK_REFUSALS):
                self.quorum.resign(epoch)
        return bool(batches)

    def write(self, records: Sequence[MetadataRecord]) -> None:
        """Records that no request asked for. NotController unless this node leads."""
        self._append(self._batches_of(Decision(list(records), None)))
        self._go_on(has_appended=True)

    def _batches_of(self, decision: Decision[Any]) -> list[RecordBatch]:
        return batches_of(self._controller.decided, decision, self._clock.now_ms())

    def _append(self, batches: list[RecordBatch]) -> None:
        if self._led_epoch is None:
            raise NotController("this node does not lead the metadata quorum")
        for parts, applied in batches:
            try:
                next_offset = self.quorum.propose(self._led_epoch, parts)
            except NotController as error:
                cause = error.__cause__
                if isinstance(cause, _DISK_REFUSALS) and not isinstance(cause, NotLeaderOrFollower):
                    self.committed_image.refused(cause)
                raise
            except RecordListTooLarge:
                raise
            except _DISK_REFUSALS as error:
                self.committed_image.refused(error)
                raise
            self._in_flight.appended(next_offset, applied)
            self._controller.decided_on(applied)

    def _go_on(self, has_appended: bool, caller: WaitingCaller | None = None) -> None:
        """Commits what can be committed now, then answers."""
        self._depth += 1
        try:
            if has_appended:
                self.quorum.advance()
            self._settle()
        except _DISK_REFUSALS as error:
            if self._led_epoch is not None and self._in_flight.batch_count:
                # Whether they are on disk is not known, so nothing may be built on them. The caller
                # learns that from the error, earlier callers from an answer.
                epoch = self._led_epoch
                self._give_up(asking=caller)
                self.committed_image.refused(error)
                self.quorum.resign(epoch)
            raise
        finally:
            self._depth -= 1

    def _resign_over(self, request: str) -> None:
        """A fault of ours: another node may do better, and this one starts over from what is
        committed."""
        _LOG.exception("controller resigns: a decision failed request=%s", request)
        assert self._led_epoch is not None
        self.quorum.resign(self._led_epoch)

    # -- `door.MetadataStateMachine` ----------------------------------------------------------

    def load(self, snapshot_id: OffsetAndEpoch, records: Iterator[MetadataRecord]) -> None:
        self.committed_image.load(records)
        self._committed_offset = snapshot_id.offset

    def committed(self, batch: CommittedBatch) -> None:
        applied = None
        if self._led_epoch == batch.epoch:
            applied = self._in_flight.take_batch(batch.next_offset)
        if applied is not None:
            self.committed_image.committed_to(applied)
        elif records := batch.records():
            if self._led_epoch is not None:
                what = f"offset {batch.base_offset} of epoch {batch.epoch}"
                raise InvariantViolation(f"leading epoch {self._led_epoch}: {what} is not ours")
            self.committed_image.follow(records)
        self._committed_offset = batch.next_offset
        self._settle()

    def snapshot(self) -> Iterable[MetadataRecord] | None:
        return self.committed_image.snapshot()

    def _settle(self) -> None:
        """Answers what is committed, in order. Requests that come meanwhile wait for their turn."""
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while (each := self._in_flight.take_answer(self._committed_offset)) is not None:
                self._answer(each, each.response)
        finally:
            self._is_settling = False

    def _answer(self, caller: WaitingCaller, response: ApiMessage) -> None:
        """A caller that fails over its answer must not stop the quorum: the error reaches the one
        that asked in this turn, or the log."""
        try:
            caller.on_answer(response)
        except Exception:
            if self._depth:
                raise
            _LOG.exception("answer of the controller not taken request=%s", caller.request.name)

    def leadership(self, leadership: Leadership) -> None:
        if self._led_epoch is not None and self._led_epoch != leadership.epoch:
            self._give_up()
        if not leadership.is_me:
            if leadership.leader_id is not None:
                self._last_controller_id = leadership.leader_id
            self._give_up()
            return
        image = self.image
        self._led_epoch = leadership.epoch
        now_ms, next_offset = self._clock.monotonic_ms(), self.quorum.end_offset
        self._controller.lead(
            now_ms=now_ms, next_offset=next_offset, last_controller_id=self._last_controller_id
        )
        if records := self._first_records(image):
            # The quorum may have moved on meanwhile, and will say so.
            with suppress(NotController):
                self.write(records)

    def _first_records(self, image: MetadataImage) -> list[MetadataRecord]:
        if self._bootstrap is not None:
            return self._controller.activation(self._bootstrap)
        # A single node: it adds what its older releases did not know.
        missing = missing_features(image.features) if image.features else []
        return self._controller.activation(bootstrap_records()) + missing

    def _give_up(self, asking: WaitingCaller | None = None) -> None:
        """What was decided here and not committed may still be, by the next leader: callers get
        NOT_CONTROLLER, and never success."""
        self._led_epoch = None
        self._heard_on.clear()
        self._controller.resign()
        for each in self._in_flight.drop():
            if each is not asking:
                self._answer(each, not_controller(each.request))
