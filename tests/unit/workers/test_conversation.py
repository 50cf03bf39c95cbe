"""What a worker may say, and when."""

import pytest

from ledgerstone.workers.conversation import (
    Conversation,
    DoneReport,
    FailureReport,
    Here,
    OutOfTurn,
    PartReport,
    ProgressReport,
    Said,
    done,
    failed,
    part,
)
from ledgerstone.workers.frames import Message

HERE = {"kind": "here"}
PROGRESS = {"kind": "progress"}
PROCEED = {"kind": "proceed"}
ABORT = {"kind": "abort"}


def at_work() -> Conversation:
    talk = Conversation()
    talk.job({})
    return talk


def test_job_from_the_first_word_to_the_last() -> None:
    talk = Conversation()

    said: list[Message | Said | None] = [
        talk.ping(),
        talk.hear(HERE),
        talk.job({"plan": 1}),
        talk.hear(PROGRESS),
        talk.hear(part({"group": 1})),
        talk.word(go_on=True),
        talk.hear(done({"report": 1})),
    ]

    assert said == [
        {"kind": "ping"},
        Here(),
        {"kind": "job", "content": {"plan": 1}},
        ProgressReport(),
        PartReport({"group": 1}),
        PROCEED,
        DoneReport({"report": 1}),
    ]


def test_worker_that_failed_takes_the_next_job() -> None:
    talk = at_work()

    assert talk.hear(failed("no")) == FailureReport("no")
    assert talk.job({"plan": 2})["kind"] == "job"


def test_abort_may_be_said_while_the_worker_is_busy_and_go_on_may_not() -> None:
    talk = at_work()

    assert talk.word(go_on=True) is None
    assert talk.word(go_on=False) == ABORT


def test_abort_that_crosses_a_part_is_said_again_about_the_part() -> None:
    talk = at_work()
    talk.word(go_on=False)
    talk.hear(part({}))

    assert talk.word(go_on=False) == ABORT
    assert talk.hear(failed("aborted")) == FailureReport("aborted")


def test_word_about_a_job_that_is_over_is_not_said() -> None:
    talk = at_work()
    talk.hear(done({}))

    assert talk.word(go_on=False) is None


@pytest.mark.parametrize("message", [PROGRESS, part({}), done({}), failed("no"), HERE])
def test_idle_worker_has_nothing_to_say(message: Message) -> None:
    with pytest.raises(OutOfTurn, match="while it was idle"):
        Conversation().hear(message)


@pytest.mark.parametrize(
    "message",
    [
        HERE,
        {"kind": "sorry"},
        {"kind": "done"},
        {"kind": "done", "content": []},
        {"kind": "part"},
        {"kind": "failed"},
        {"kind": "failed", "detail": 7},
    ],
)
def test_worker_at_work_says_only_what_is_known(message: Message) -> None:
    with pytest.raises(OutOfTurn):
        at_work().hear(message)


def test_worker_that_waits_for_a_word_says_nothing_before_it() -> None:
    talk = at_work()
    talk.hear(part({}))

    with pytest.raises(OutOfTurn, match="waiting"):
        talk.hear(part({}))
