"""Ratios, verdicts and what is kept of a comparison with Apache Kafka."""

import pytest

from bench.peers.measures import (
    Line,
    Pair,
    Results,
    Section,
    from_json,
    medians,
    merged,
    ratio_of,
    to_json,
)
from bench.peers.percentiles import percentiles


def line(*rounds: tuple[float, float | None], more: bool = True, target: float = 1.0) -> Line:
    pairs = tuple(Pair(*each) for each in rounds)
    return Line(name="line", unit="s", rounds=pairs, more_is_better=more, target=target)


def section(*lines: Line, when: str = "2026-01-01") -> Section:
    return Section(
        title="Title",
        when=when,
        command="command",
        seconds=1.0,
        versions="versions",
        notes=("note",),
        lines=lines,
    )


def test_ratio_says_how_many_times_better_we_are_whichever_way_the_unit_runs() -> None:
    rate = ratio_of([Pair(30, 10)], more_is_better=True)
    time = ratio_of([Pair(10, 30)], more_is_better=False)

    assert rate is not None
    assert rate == time
    assert rate.middle == 3


def test_ratio_is_of_the_pairs_and_not_of_the_medians() -> None:
    # The machine was ten times slower in the second round, for both.
    found = ratio_of([Pair(20, 10), Pair(2, 1), Pair(30, 10)], more_is_better=True)

    assert found == (2, 2, 3)


def test_no_ratio_without_a_peer_or_without_rounds_or_over_nothing() -> None:
    assert ratio_of([Pair(1, None)], more_is_better=True) is None
    assert ratio_of([], more_is_better=True) is None
    assert ratio_of([Pair(0, 1)], more_is_better=False) is None


@pytest.mark.parametrize(
    ("ours", "target", "verdict"),
    [
        (0.9, 1.0, "Kafka wins"),
        (0.9, 2.0, "Kafka wins"),
        (0.99, 1.0, "Kafka wins"),
        (1.0, 1.0, "ok"),
        (1.99, 2.0, "below 2×"),
        (1.5, 1.0, "ok"),
        (1.5, 2.0, "below 2×"),
        (2.0, 2.0, "ok"),
    ],
)
def test_verdict_names_the_winner_before_it_names_the_target(
    ours: float, target: float, verdict: str
) -> None:
    assert line((ours, 1.0), target=target).verdict == verdict


def test_verdict_is_silent_without_a_peer() -> None:
    assert line((1.0, None)).verdict == ""


def test_medians_leave_out_a_peer_that_was_not_there() -> None:
    assert medians([Pair(1, None), Pair(3, None), Pair(2, None)]) == (2, None)
    assert medians([Pair(1, 6), Pair(3, 4), Pair(2, 5)]) == (2, 5)


def test_results_survive_json() -> None:
    whole = Line(
        name="produce",
        unit="MB/s",
        rounds=(Pair(1.5, 2.5), Pair(3.5, 4.5)),
        target=2.0,
        cpu=(Pair(0.5, 0.25),),
        cpu_unit="s/GB",
        record_bytes=100,
    )
    results = Results(
        machine={"Machine": "m"}, sections={"a": section(whole, line((1.0, None), more=False))}
    )

    assert from_json(to_json(results)) == results


def test_a_newer_section_replaces_the_older_and_the_others_stay_in_order() -> None:
    old = Results(machine={}, sections={"b": section(when="old"), "a": section(when="old")})
    new = Results(machine={"Machine": "m"}, sections={"b": section(when="new")})

    found = merged(old, new, ["a", "b", "c"])

    assert [(key, each.when) for key, each in found.sections.items()] == [
        ("a", "old"),
        ("b", "new"),
    ]
    assert found.machine == {"Machine": "m"}


def test_percentiles_are_samples_that_came() -> None:
    found = percentiles([float(number) for number in range(1000, 0, -1)])

    assert found == (500, 990, 999)


def test_percentiles_of_a_few_are_the_largest() -> None:
    assert percentiles([3.0, 1.0, 2.0]) == (2, 3, 3)
    with pytest.raises(ValueError, match="no samples"):
        percentiles([])
