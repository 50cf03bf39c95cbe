"""Tables and charts of a comparison with Apache Kafka, and their place in the page."""

import xml.etree.ElementTree as ET

import pytest

from bench.peers.chart import LABEL_WIDTH, PLOT_WIDTH, Scale, draw
from bench.peers.measures import Line, Pair, Ratio, Results, Section
from bench.peers.report import END, START, page_with, render, table

SVG = "{http://www.w3.org/2000/svg}"


def line(name: str, ours: float, theirs: float | None, *, cpu: bool = False) -> Line:
    return Line(
        name=name,
        unit="MB/s",
        rounds=(Pair(ours, theirs),),
        cpu=(Pair(1.0, 4.0),) if cpu else (),
        cpu_unit="s/GB",
        record_bytes=1000,
    )


def results(*lines: Line) -> Results:
    section = Section(
        title="Produce & more",
        when="2026-01-01",
        command="python -m bench.peers",
        seconds=5.0,
        versions="versions",
        notes=("A note.",),
        lines=lines,
    )
    return Results(machine={"Machine": "two cores"}, sections={"produce": section})


def test_what_lies_between_the_markers_is_replaced_and_nothing_else() -> None:
    page = f"# Page\n\n{START}\nold\n{END}\n\nafter\n"

    found = page_with(page, "new\n")

    assert found == f"# Page\n\n{START}\nnew\n{END}\n\nafter\n"
    assert page_with(found, "new\n") == found


def test_a_page_without_markers_gets_them_at_its_end() -> None:
    assert page_with("# Page\n", "new") == f"# Page\n\n{START}\nnew\n{END}\n"


def test_a_marker_that_is_never_closed_is_refused() -> None:
    with pytest.raises(ValueError, match="never closed"):
        page_with(f"{START}\nold\n", "new")


def test_lines_that_kafka_wins_are_listed_worst_first() -> None:
    found = render(results(line("even", 1, 1), line("lost", 8, 10), line("worst", 1, 10)))

    assert "Of 3 lines Apache Kafka wins 2" in found
    assert found.index("- worst: 0.10") < found.index("- lost: 0.80")
    assert "- even" not in found


def test_a_line_that_costs_us_more_cpu_is_listed_though_we_win_it_by_the_clock() -> None:
    dear = Line(name="dear", unit="MB/s", rounds=(Pair(2, 1),), cpu=(Pair(4, 3),), cpu_unit="s/GB")

    found = render(results(dear, line("cheap", 2, 1, cpu=True)))

    assert "wins 0" in found
    assert "Where Kafka spends less CPU, worst first:\n\n- dear: 0.75" in found
    assert "- cheap" not in found


def test_a_run_without_kafka_says_so() -> None:
    found = render(results(line("alone", 1, None)))

    assert "was not there to compare" in found


def test_a_row_has_both_figures_records_and_cpu() -> None:
    (*_, row) = table(results(line("one", 200, 100, cpu=True)).sections["produce"])

    assert row == (
        "| one | 200 MB/s, 200 k rec/s | 100 MB/s, 100 k rec/s | 2.00 (2.00–2.00) "
        "| 1 s/GB | 4 s/GB | 4.00 (4.00–4.00) | ok |"
    )


def test_a_chart_is_linked_only_where_charts_are() -> None:
    found = results(line("one", 1, 1))

    assert "](charts/produce.svg)" in render(found, charts="charts")
    assert ".svg" not in render(found)


def test_a_chart_is_well_formed_and_says_in_words_what_it_shows() -> None:
    lines = [line("a < b & c", 20, 10, cpu=True), line("lost", 5, 10)]

    root = ET.fromstring(draw("Title & more", lines))

    title, description = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert title is not None
    assert title.text == "Title & more: Ledgerstone over Apache Kafka"
    assert description is not None
    assert description.text == "a < b & c: 2.00 times; lost: 0.50 times"
    classes = [rect.get("class") for rect in root.iter(f"{SVG}rect")]
    assert classes == ["paper", "ahead", "cpu", "behind"]


def test_a_chart_without_ratios_is_still_a_chart() -> None:
    root = ET.fromstring(draw("Title", [line("alone", 1, None)]))

    assert [rect.get("class") for rect in root.iter(f"{SVG}rect")] == ["paper"]


def test_equal_factors_are_equally_far_from_one() -> None:
    scale = Scale([Ratio(2, 0.25, 4)])

    assert scale.x(2) - scale.x(1) == pytest.approx(scale.x(1) - scale.x(0.5), abs=0.2)
    assert LABEL_WIDTH <= scale.x(0.0001) < scale.x(0.25)
    assert scale.x(4) < scale.x(10_000) <= LABEL_WIDTH + PLOT_WIDTH
