"""The parts of the comparison that could be wrong without looking wrong."""

import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import pytest

from bench.peers import __main__ as program
from bench.peers import transactions
from bench.peers.__main__ import SECTIONS, parse
from bench.peers.arena import Arena, Both
from bench.peers.consume import Topic
from bench.peers.contestants import quiet_port
from bench.peers.jars import Artifacts, pom_of
from bench.peers.load import Moved, together
from bench.peers.load_job import values_of
from bench.peers.measures import Line, Pair, Results
from bench.peers.processes import cpu_s_between, tree, tree_cpu_s, tree_rss_bytes
from bench.peers.produce import cases
from bench.peers.state import Rebuilt, lines_of


def test_a_tree_holds_children_and_counts_their_memory() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = tree(os.getpid())
        both, alone = tree_rss_bytes(os.getpid()), tree_rss_bytes(child.pid)

        assert found[0] == os.getpid()
        assert child.pid in found
        assert both > alone > 0
        child.communicate(b"\n")


def test_cpu_time_of_a_child_counts_after_it_has_ended() -> None:
    before = tree_cpu_s(os.getpid())

    spins = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", spins], check=True)

    assert tree_cpu_s(os.getpid()) - before >= 0.15


def test_cpu_time_of_a_tree_is_at_least_our_own() -> None:
    own = time.process_time()

    assert tree_cpu_s(os.getpid()) >= own


def test_a_process_that_ended_takes_no_cpu_back() -> None:
    before = {1: 10.0, 2: 30.0}
    after = {1: 12.5, 3: 1.0}

    assert cpu_s_between(before, after) == 3.5


def test_what_several_did_at_once_lasts_from_the_first_to_the_last() -> None:
    found = together([Moved(1.0, 4.0, 10, 3_000_000), Moved(2.0, 5.0, 20, 5_000_000)])

    assert found == Moved(1.0, 5.0, 30, 8_000_000)
    assert found.mb_s == 2.0


@pytest.mark.parametrize("size", [1, 100, 1000, 10_000])
def test_values_have_exactly_the_size_asked_for_and_differ(size: int) -> None:
    found = values_of(size)

    assert {len(value) for value in found} == {size}
    assert size < 100 or len(set(found)) == len(found)


def test_every_case_of_producing_is_there_once() -> None:
    found = cases(quick=False)

    assert len(found) == len(set(found)) == 3 * 2 * 3 * 2
    assert len({case.label for case in found}) == len(found)


def test_topics_of_different_shape_have_different_names() -> None:
    assert Topic(100, 1, "none").name != Topic(100, 1, "lz4").name


def test_commits_are_better_the_shorter_they_take_and_rates_the_higher() -> None:
    ours = transactions.Ended(rate=200.0, p50=1_000.0, p99=3_000.0, cpu_s=1.0)
    theirs = transactions.Ended(rate=100.0, p50=2_000.0, p99=1_500.0, cpu_s=4.0)

    rate, p50, p99 = transactions.lines_of(transactions.Case("Java", 3, 100), [Both(ours, theirs)])

    assert [line.ratio and line.ratio.middle for line in (rate, p50, p99)] == [2.0, 2.0, 0.5]
    assert rate.cpu_ratio is not None
    assert rate.cpu_ratio.middle == 4.0
    assert rate.name == "transactions, Java, 3 partitions, 100 records each"


def test_states_that_disagree_about_live_keys_are_no_comparison() -> None:
    found = {"ours": [Rebuilt(1.0, 1.0, 7)], "theirs": [Rebuilt(1.0, 1.0, 8)]}

    with pytest.raises(RuntimeError, match="live keys differ"):
        lines_of(100, 1_000_000, found)


def test_a_state_line_is_ours_beside_each_other_loop() -> None:
    found = {
        "ours": [Rebuilt(1.0, 0.5, 7)],
        "a": [Rebuilt(2.0, 2.0, 7)],
        "b": [Rebuilt(4.0, 1.0, 7)],
    }

    first, second = lines_of(100, 1_000_000, found)

    assert [line.ratio and line.ratio.middle for line in (first, second)] == [2.0, 4.0]
    assert [line.cpu_ratio and line.cpu_ratio.middle for line in (first, second)] == [4.0, 2.0]


def test_nothing_but_what_is_named_comes_with_the_connector() -> None:
    root = ET.fromstring(pom_of(Artifacts("4.2.0", "4.0.0", "3.9.2", "2.13.1")))

    found = [(each.findtext("artifactId"), each.findtext("version")) for each in root[-1]]
    excluded = [each.findtext("exclusions/exclusion/artifactId") for each in root[-1]]

    assert found[0] == ("spark-sql-kafka-0-10_2.13", "4.2.0")
    assert found[1] == ("spark-token-provider-kafka-0-10_2.13", "4.0.0")
    assert excluded == ["*"] * 4


def test_a_mixture_of_versions_is_named_in_the_label() -> None:
    assert "token provider 4.0.0" in Artifacts("4.2.0", "4.0.0", "3.9.2", "2.13.1").label
    assert "token provider" not in Artifacts("4.2.0", "4.2.0", "3.9.2", "2.13.1").label


def test_sections_are_chosen_by_name_and_unknown_ones_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert parse(["--only", "spark,produce"]).only == ["spark", "produce"]
    assert parse([]).only == list(SECTIONS)
    with pytest.raises(SystemExit):
        parse(["--only", "speed"])
    assert "'speed' is none of produce" in capsys.readouterr().err


def test_a_quick_run_is_never_published() -> None:
    with pytest.raises(SystemExit):
        parse(["--quick", "--publish"])


def test_what_was_found_is_kept_by_section_and_published_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# Benchmarks\n", encoding="utf-8")
    monkeypatch.setattr(program, "PAGE", page)
    monkeypatch.setattr(program, "CHARTS", tmp_path / "benchmarks")
    store = tmp_path / "cache" / "results.json"
    for name in ("state", "produce"):
        line = Line(name=f"line of {name}", unit="s", rounds=(Pair(2.0, 1.0),))
        arena = Arena(jars=None, rounds=1, quick=False)
        section = program.run_section(
            program.Runner(name, partial(lambda found, _: [found], line)), arena, "command"
        )
        program.keep(store, Results(machine={}, sections={name: section}))

    program.publish(program.stored(store))

    text = page.read_text(encoding="utf-8")
    assert text.index("line of produce") < text.index("line of state")
    written = sorted(path.name for path in (tmp_path / "benchmarks").iterdir())
    assert written == ["peers.json", "produce.svg", "state.svg"]
    assert program.stored(tmp_path / "benchmarks" / "peers.json") == program.stored(store)


def test_a_port_and_the_next_lie_below_those_that_clients_are_given() -> None:
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")

    found = [quiet_port() for _ in range(50)]

    assert max(found) + 1 < int(limits.split()[0])
    assert min(found) >= 1024
