"""Which definitions of a directory run: files that come, change and go; failures; the end."""

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.roster import (
    LONGEST_WAIT_MS,
    DefinitionRoster,
    ServedState,
    StartRun,
    StopRun,
)


def test_every_definition_is_started_once() -> None:
    roster = DefinitionRoster(once=False)

    first, second = roster.look({"b": "1", "a": "1"}, 0), roster.look({"b": "1", "a": "1"}, 1)

    assert (first, second) == ([StartRun("a"), StartRun("b")], [])


def test_failure_waits_longer_each_time_and_a_long_run_forgives() -> None:
    roster = DefinitionRoster(once=False)
    now_ms, waits = 0, []
    for _ in range(12):
        assert roster.look({"a": "1", "b": "1"}, now_ms)[0] == StartRun("a")
        roster.ended("a", now_ms, "it broke")
        waits.append(roster.served["a"].next_ms - now_ms)
        assert roster.look({"a": "1", "b": "1"}, now_ms) in ([], [StartRun("b")])
        now_ms = roster.served["a"].next_ms

    roster.look({"a": "1", "b": "1"}, now_ms)
    roster.ended("a", now_ms + 60_000, "again")

    assert waits[:4] == [1_000, 2_000, 4_000, 8_000]
    assert max(waits) == LONGEST_WAIT_MS
    assert roster.served["a"].next_ms == now_ms + 61_000
    assert roster.served["b"].state is ServedState.RUNNING


def test_changed_file_is_stopped_and_started_anew_and_a_removed_one_is_forgotten() -> None:
    roster = DefinitionRoster(once=False)
    roster.look({"a": "1", "b": "1"}, 0)

    changed = roster.look({"a": "2"}, 1)
    meanwhile = roster.look({"a": "2"}, 2)
    roster.ended("a", 3)
    roster.ended("b", 3)

    assert changed == [StopRun("b"), StopRun("a")]
    assert meanwhile == []
    assert roster.look({"a": "2"}, 3) == [StartRun("a")]
    assert list(roster.served) == ["a"]


def test_file_that_comes_back_while_its_run_stops_is_started_again() -> None:
    roster = DefinitionRoster(once=False)
    roster.look({"a": "1"}, 0)
    roster.look({}, 1)

    back = roster.look({"a": "1"}, 2)
    roster.ended("a", 3)

    assert back == []
    assert roster.look({"a": "1"}, 3) == [StartRun("a")]


def test_invalid_file_waits_for_a_change() -> None:
    roster = DefinitionRoster(once=False)
    roster.look({"a": "1"}, 0)
    roster.invalid("a", "where: no")

    assert roster.look({"a": "1"}, 10**9) == []
    assert roster.served["a"].error == "where: no"
    assert roster.look({"a": "2"}, 10**9) == [StartRun("a")]


def test_once_is_done_when_all_have_ended_and_tells_of_failures() -> None:
    roster = DefinitionRoster(once=True)
    roster.look({"a": "1", "b": "1"}, 0)
    roster.ended("a", 1)

    assert not roster.is_done
    roster.ended("b", 2, "it broke")
    assert roster.look({"a": "1", "b": "1"}, 10**9) == []
    assert (roster.is_done, roster.has_failed) == (True, True)


def test_stop_ends_all_and_starts_none() -> None:
    roster = DefinitionRoster(once=False)
    roster.look({"a": "1", "b": "1"}, 0)
    roster.ended("b", 1, "it broke")

    stops = roster.stop()

    assert stops == [StopRun("a")]
    assert roster.look({"a": "1", "b": "1", "c": "1"}, 10**9) == []
    assert not roster.is_done
    roster.ended("a", 2)
    assert (roster.is_done, roster.served["a"].state) == (True, ServedState.STOPPED)


_files = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("look"), _files),
        st.tuples(st.just("ended"), st.sampled_from("abc")),
        st.tuples(st.just("failed"), st.sampled_from("abc")),
        st.tuples(st.just("invalid"), st.sampled_from("abc")),
        st.tuples(st.just("stop"), st.just(None)),
    ),
    max_size=20,
)


@given(_steps)
def test_a_definition_never_runs_twice_at_once(steps: list[tuple[str, object]]) -> None:
    roster = DefinitionRoster(once=False)
    running: set[str] = set()
    is_stopping = False
    for now_ms, (what, about) in enumerate(steps):
        if what == "look":
            assert isinstance(about, dict)
            for action in roster.look(about, now_ms * 1_000_000):
                if isinstance(action, StartRun):
                    assert action.path not in running
                    assert not is_stopping
                    running.add(action.path)
                else:
                    assert action.path in running
        elif what == "stop":
            is_stopping = True
            assert {each.path for each in roster.stop()} <= running
        elif about in running:
            assert isinstance(about, str)
            running.discard(about)
            if what == "invalid":
                roster.invalid(about, "why")
            else:
                roster.ended(about, now_ms * 1_000_000, "why" if what == "failed" else None)
        assert {each.path for each in roster.served.values() if each.is_running} == running
