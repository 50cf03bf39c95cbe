"""Patterns of clients: RE2's syntax, whole texts, bounded work."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledgerstone.coordinator.pattern_syntax import PatternError
from ledgerstone.coordinator.safe_pattern import PatternTooCostly, SafePattern
from ledgerstone.sim.dice import SeededDice


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("", [""], ["a"]),
        ("a", ["a"], ["", "aa", "b"]),
        ("a.c", ["abc", "a-c"], ["ac", "a\nc"]),
        ("(?s)a.c", ["a\nc"], []),
        ("a|bc|", ["a", "bc", ""], ["b", "abc"]),
        ("x*y+z?", ["y", "xxyyz"], ["x", "xz"]),
        ("a{2}", ["aa"], ["a", "aaa"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("a{1,3}?", ["a", "aaa"], ["", "aaaa"]),
        ("a{,3}", ["a{,3}"], ["a"]),
        ("(ab)+", ["ab", "abab"], ["aba"]),
        ("(?:ab|c)*", ["", "abccab"], ["a"]),
        ("(?P<name>a)(?<other>b)", ["ab"], []),
        ("(?i)aB(?-i)c", ["ABc", "abc"], ["abC"]),
        ("(?i:a)b", ["Ab"], ["aB"]),
        ("[a-cx]", ["a", "b", "x"], ["d", "-"]),
        ("[^a-c]", ["d", "\n"], ["a"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("[a-]", ["a", "-"], ["b"]),
        (r"[\d\-_]+", ["1-_"], ["a"]),
        ("[[:alpha:][:digit:]]+", ["aZ9"], ["_"]),
        ("[[:^digit:]]", ["a"], ["1"]),
        (r"\d+\D\w\W\s\S", ["12ab- x"], ["12a"]),
        (r"\p{Lu}\pL\PN", ["Äß-"], ["äß-"]),
        (r"\x41\x{1F600}\101\t", ["A😀A\t"], []),
        (r"\Qa.b*\E+", ["a.b*", "a.b**"], ["axb"]),
        (r"a\.b\\", ["a.b\\"], ["axb\\"]),
        ("^a$", ["a"], []),
        ("a^b", [], ["ab"]),
        (r"\Aa\z", ["a"], []),
        ("(?m)a$\n^b", ["a\nb"], []),
        (r"a\b-\Bc?", ["a-"], ["a-c"]),
        ("(a*)*b", ["b", "aab"], ["a"]),
        ("(|a)+", ["", "aaa"], ["b"]),
        ("payments-[0-9]{1,3}", ["payments-7"], ["payments-", "payments-1234"]),
    ],
)
def test_patterns_mean_what_they_mean_in_re2(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    compiled = SafePattern(pattern)

    assert [text for text in matching + others if compiled.matches(text)] == matching


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[", "[a", "[b-a]", "*", "a**", "a{2}{3}", "a{1001}", "a{3,2}",
        r"(a)\1", "(?=a)", "(?<=a)b", "(?!a)", "(?>a)", "\\", r"\y", r"\p{Greek}", r"\pX",
        "[[:nope:]]", "(?z)", "(?P<1-2>a)", r"\x{110000}", r"\xg0", "(?i", "|*",
    ],
)  # fmt: skip
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        SafePattern(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a{1000}){1000}", "((((){1000}){1000}){1000}){1000}", "(a|b|c){1000}x{900}" * 9],
)
def test_programs_too_large_are_refused_before_they_are_made(pattern: str) -> None:
    with pytest.raises(PatternTooCostly):
        SafePattern(pattern)


def test_deep_groups_are_refused() -> None:
    with pytest.raises(PatternError, match="nested"):
        SafePattern("(" * 5000 + ")" * 5000)


def test_a_pattern_that_keeps_others_busy_for_years_is_done_at_once() -> None:
    pattern = SafePattern("(a|aa|a*)*b")

    assert not pattern.matches("a" * 5000)
    assert pattern.steps < 20_000


def test_work_is_counted_over_all_texts() -> None:
    # Every `a` may be the one that counts, so hundreds of states are followed at once.
    pattern = SafePattern("(a|b)*a(a|b){200}c")
    dice = SeededDice("texts")
    text = "".join("ab"[each & 1] for each in dice.random_bytes(100_000))

    with pytest.raises(PatternTooCostly):
        pattern.matches(text)


_ATOMS = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", "(a|b)", "(ab|)", "(a*)", "\\w"])
_REPEATED = st.builds(str.__add__, _ATOMS, st.sampled_from(["", "*", "+", "?", "{2}", "{0,2}"]))
_PATTERNS = st.lists(_REPEATED | st.sampled_from(["^", "$", "\\b"]), max_size=5).map("".join)


@given(
    pattern=st.lists(_PATTERNS, min_size=1, max_size=3).map("|".join),
    text=st.text("abc\n", max_size=8),
)
@example(pattern="a$", text="a\n")
def test_the_twin_agrees(pattern: str, text: str) -> None:
    # Python's `$` also matches before a last newline; RE2's does not.
    twin = re.compile(pattern.replace("$", r"\Z"))

    assert SafePattern(pattern).matches(text) == bool(twin.fullmatch(text))
