"""Jobs on other brokers: begun once, fetched in pieces, given up when nothing answers."""

from collections.abc import Callable

import pytest

from ledgerstone.erasure.host_messages import CHUNK_BYTES, WorkKind, encoded
from ledgerstone.errors import InvalidRequest
from ledgerstone.server.erasing.jobs import MAX_HOST_JOBS, HostJobs, JobKey, RemoteJobs
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered
from ledgerstone.sim.clock import VirtualClock

OWN, THERE, EPOCH = 1, 2, 40


class Wire(OtherBrokers):
    """Asks the `HostJobs` of broker 2 at once, unless the wire is cut."""

    def __init__(self, clock: VirtualClock) -> None:
        self.host = HostJobs(clock)
        self.begun: list[JobKey] = []
        self.cut: Callable[[WorkKind], Unanswered | None] = lambda kind: None

    def ask(
        self,
        broker_id: int,
        kind: WorkKind,
        on_word: Callable[[Said | Unanswered], None],
        content: bytes = b"",
        *,
        job: int = 0,
        position: int = 0,
    ) -> None:
        lost = self.cut(kind)
        if lost is not None:
            on_word(lost)
            return
        key = JobKey(OWN, EPOCH, job)
        try:
            if kind is WorkKind.START:
                if self.host.begin(key):
                    self.begun.append(key)
                on_word(Said(0, b"{}"))
            else:
                on_word(Said(*self.host.result(key, position)))
        except InvalidRequest as error:
            on_word(Unanswered(str(error), 42, may_be_done=False))


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def wire(clock: VirtualClock) -> Wire:
    return Wire(clock)


@pytest.fixture
def jobs(clock: VirtualClock, wire: Wire) -> RemoteJobs:
    return RemoteJobs(clock, wire)


def pass_time(clock: VirtualClock, jobs: RemoteJobs, ms: int) -> None:
    end_ms = clock.monotonic_ms() + ms
    while len(jobs) and clock.monotonic_ms() < end_ms:
        clock.advance(ms=10)
        jobs.tick()


def test_large_result_is_fetched_in_pieces_and_forgotten(
    clock: VirtualClock, wire: Wire, jobs: RemoteJobs
) -> None:
    ended: list[bytes | Unanswered] = []
    content = {"text": "x" * (2 * CHUNK_BYTES + 5)}

    jobs.start(THERE, {"what": "scan"}, ended.append)
    pass_time(clock, jobs, 300)
    assert ended == []
    wire.host.end(wire.begun[0], content)
    pass_time(clock, jobs, 2_000)

    assert ended == [encoded(content)]
    assert len(jobs) == 0
    with pytest.raises(InvalidRequest, match="there is no job 1"):
        wire.host.result(wire.begun[0], 0)


def test_lost_answers_are_asked_for_again_and_silence_ends_the_job(
    clock: VirtualClock, wire: Wire, jobs: RemoteJobs
) -> None:
    ended: list[bytes | Unanswered] = []
    silence = Unanswered("broker 2 does not answer: cut")
    jobs.start(THERE, {}, ended.append)
    wire.cut = lambda kind: silence
    pass_time(clock, jobs, 10_000)
    assert ended == []
    wire.cut = lambda kind: None
    pass_time(clock, jobs, 2_000)
    wire.cut = lambda kind: silence

    pass_time(clock, jobs, 40_000)

    assert ended == [silence]
    assert len(wire.begun) == 1


def test_host_that_was_started_again_knows_no_job(
    clock: VirtualClock, wire: Wire, jobs: RemoteJobs
) -> None:
    ended: list[bytes | Unanswered] = []
    jobs.start(THERE, {}, ended.append)
    wire.host = HostJobs(clock)

    pass_time(clock, jobs, 5_000)

    (outcome,) = ended
    assert isinstance(outcome, Unanswered)
    assert "there is no job" in outcome.reason


def test_failed_job_says_why(clock: VirtualClock, wire: Wire, jobs: RemoteJobs) -> None:
    ended: list[bytes | Unanswered] = []
    jobs.start(THERE, {}, ended.append)
    wire.host.end(wire.begun[0], "the worker died")

    pass_time(clock, jobs, 5_000)

    assert ended == [Unanswered("the worker died", 42, may_be_done=False)]


def test_forgotten_jobs_call_nobody(clock: VirtualClock, wire: Wire, jobs: RemoteJobs) -> None:
    ended: list[bytes | Unanswered] = []
    jobs.start(THERE, {}, ended.append)
    wire.host.end(wire.begun[0], {})

    jobs.forget()
    clock.advance(ms=60_000)
    jobs.tick()

    assert (ended, jobs.next_deadline_ms) == ([], None)


def test_host_begins_a_job_once_and_not_too_many(clock: VirtualClock) -> None:
    host = HostJobs(clock)
    keys = [JobKey(OWN, EPOCH, each) for each in range(MAX_HOST_JOBS)]

    assert all(host.begin(each) for each in keys)
    assert not host.begin(keys[0])
    with pytest.raises(InvalidRequest, match="jobs are under way"):
        host.begin(JobKey(OWN, EPOCH, 999))
    # Another life of the asker counts anew, and what nobody asks after is forgotten.
    clock.advance(ms=600_000)
    assert host.begin(JobKey(OWN, EPOCH + 1, 0))
    with pytest.raises(InvalidRequest, match="there is no job"):
        host.result(keys[0], 0)
