"""The order in which workers get the pieces of the suite: the longest first."""

from pathlib import Path

from tests.conftest import APART, DEFAULT_MARKS, LONGEST, TOGETHER, longest_first, piece_of

ROOT = Path(__file__).resolve().parents[2]


def test_long_pieces_start_before_pieces_with_many_tests() -> None:
    many = [f"tests/unit/server/test_many.py::test_{n}" for n in range(3)]
    few = ["tests/unit/server/test_few.py::test_0"]
    long = ["tests/docs/test_start_spark.py::test_0"]

    assert longest_first([*few, *many, *long]) == [*long, *many, *few]


def test_tests_of_one_piece_stay_in_their_order() -> None:
    nodeids = [f"tests/spark/test_{name}.py::test_it" for name in ("b", "a", "c")]

    assert longest_first(nodeids) == nodeids
    assert {piece_of(each) for each in nodeids} == {"spark"}


def test_every_listed_place_exists() -> None:
    listed = [*LONGEST, *APART, *TOGETHER]

    assert [each for each in listed if not (ROOT / each).exists()] == []


def test_what_is_not_even_made_is_what_the_default_suite_leaves_out() -> None:
    """With another expression nothing would be wrong, but every worker would make all tests."""
    assert f'-m "{DEFAULT_MARKS}"' in (ROOT / "Makefile").read_text(encoding="utf-8")
