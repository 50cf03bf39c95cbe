"""Regular expressions that clients send, matched in bounded time. Pure.

The syntax is RE2's, as Kafka uses it: no look-around and no back-references, so that an automaton
can follow every alternative at once and never goes back. Python's own engine goes back, and a
pattern of thirty characters keeps it busy for years. Work is counted all the same: a broker has one
thread. `pattern_syntax` reads the text; here it becomes a program, and the program is run.

Differs from RE2: of `\\p{...}` only general categories are known, no scripts.
"""

from collections.abc import Iterable
from typing import Final

from ledgerstone.coordinator.pattern_syntax import (
    Alternatives,
    Anchor,
    Chars,
    Node,
    PatternError,
    Repeat,
    Sequence,
    TextPlace,
    parse,
)
from ledgerstone.dataclasses import dataclass, field

MOST_INSTRUCTIONS: Final = 5_000
# About a second, whatever the pattern: what is known counts once, what is new for each state.
MOST_STEPS: Final = 2_000_000
_STEPS_OF_NEWS: Final = 20
_STEPS_OF_STATE: Final = 4
# Remembered moves; a pattern that needs more is followed step by step again.
_MOST_MOVES: Final = 10_000

_States = frozenset[int]


class PatternTooCostly(PatternError):
    """It is an expression, and takes more work than a broker gives it."""


@dataclass(slots=True)
class _Program:
    """Instruction i reads a character, checks a place, or leads on; the last one matches."""

    reads: dict[int, Chars] = field(default_factory=dict)
    checks: dict[int, Anchor] = field(default_factory=dict)
    leads_to: dict[int, tuple[int, ...]] = field(default_factory=dict)
    size: int = 0
    # Also what needs no instruction takes work, as often as it is repeated.
    compiled: int = 0

    def new(self) -> int:
        if self.size >= MOST_INSTRUCTIONS:
            raise PatternTooCostly(f"the pattern needs more than {MOST_INSTRUCTIONS} instructions")
        self.size += 1
        return self.size - 1


class SafePattern:
    """Matches whole texts only, as Kafka does."""

    __slots__ = ("_closures", "_moves", "_program", "_start", "steps")

    def __init__(self, text: str) -> None:
        """PatternError says what is wrong with the text."""
        self._program = _Program()
        end = self._program.new()
        self._start = self._compile(parse(text), end)
        # Of all matches together.
        self.steps = 0
        self._moves: dict[tuple[_States, str], _States] = {}
        self._closures: dict[tuple[_States, TextPlace | None], _States] = {}

    def matches(self, text: str) -> bool:
        """PatternTooCostly once all matches together took too much work."""
        has_checks = bool(self._program.checks)
        states: _States = frozenset((self._start,))
        for at, char in enumerate(text):
            place = TextPlace.of(text, at) if has_checks else None
            states = self._move(self._close(states, place), char)
            if not states:
                return False
        place = TextPlace.of(text, len(text)) if has_checks else None
        return 0 in self._close(states, place)

    # -- running ------------------------------------------------------------------------------

    def _move(self, states: _States, char: str) -> _States:
        known = self._moves.get((states, char))
        if known is not None:
            self._count(1)
            return known
        self._count(_STEPS_OF_NEWS + _STEPS_OF_STATE * len(states))
        program = self._program
        after = frozenset(
            target
            for each in states
            if each in program.reads and program.reads[each].has(char)
            for target in program.leads_to[each]
        )
        if len(self._moves) < _MOST_MOVES:
            self._moves[states, char] = after
        return after

    def _close(self, states: _States, place: TextPlace | None) -> _States:
        """With all that is reached without reading."""
        known = self._closures.get((states, place))
        if known is not None:
            self._count(1)
            return known
        program, found, waiting = self._program, set(states), list(states)
        while waiting:
            each = waiting.pop()
            if each in program.reads:
                continue
            check = program.checks.get(each)
            if check is not None and (place is None or not check.holds(place)):
                continue
            for target in program.leads_to.get(each, ()):
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        self._count(_STEPS_OF_NEWS + _STEPS_OF_STATE * len(found))
        closed = frozenset(found)
        if len(self._closures) < _MOST_MOVES:
            self._closures[states, place] = closed
        return closed

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise PatternTooCostly(f"matching took more than {MOST_STEPS} steps")

    # -- compiling, from the end to the beginning -----------------------------------------------

    def _compile(self, node: Node, then: int) -> int:
        """The first instruction of what matches `node` and goes on with `then`."""
        program = self._program
        program.compiled += 1
        if program.compiled > 4 * MOST_INSTRUCTIONS:
            raise PatternTooCostly("the pattern repeats repetitions too often")
        match node:
            case Chars():
                at = program.new()
                program.reads[at], program.leads_to[at] = node, (then,)
                return at
            case Anchor():
                at = program.new()
                program.checks[at], program.leads_to[at] = node, (then,)
                return at
            case Sequence(nodes=nodes):
                for each in reversed(nodes):
                    then = self._compile(each, then)
                return then
            case Alternatives(nodes=nodes):
                return self._fork(self._compile(each, then) for each in nodes)
            case Repeat():
                return self._repeat(node, then)

    def _repeat(self, node: Repeat, then: int) -> int:
        program = self._program
        if node.most is None:
            loop = program.new()
            program.leads_to[loop] = (self._compile(node.node, loop), then)
            then = loop
        else:
            after = then
            for _ in range(node.most - node.least):
                then = self._fork((self._compile(node.node, then), after))
        for _ in range(node.least):
            then = self._compile(node.node, then)
        return then

    def _fork(self, targets: Iterable[int]) -> int:
        found = tuple(targets)
        at = self._program.new()
        self._program.leads_to[at] = found
        return at
