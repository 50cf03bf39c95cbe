"""Stages on a line, and how far something has come: what the drawings of stages are made of. Pure.

A mark is never told apart by its colour alone: each state has a shape, and a word for whoever
cannot see it. `LEGEND` explains every shape that a drawing may use.
"""

from typing import Final, NamedTuple

REACHED: Final = "reached"
HERE: Final = "here"
NEXT: Final = "next"
AHEAD: Final = "ahead"
UNKNOWN: Final = "unknown"
SOME: Final = "some"
NONE: Final = "none"

LEGEND: Final = {
    REACHED: "done",
    HERE: "done last: it stands here",
    NEXT: "what it waits for",
    AHEAD: "still to come",
    UNKNOWN: "not known",
    SOME: "some stand here",
    NONE: "none stands here",
}
# The line between two stages.
WAYS: Final = {"behind": "the way that is behind it", "left": "the way that is left"}


class StageMark(NamedTuple):
    title: str
    state: str
    text: str = ""
    at_ms: int | None = None
    is_setting: bool = False  # the title is the name of a setting

    @property
    def is_done(self) -> bool:
        return self.state in (REACHED, HERE)

    @property
    def in_words(self) -> str:
        return LEGEND[self.state]


class Course(NamedTuple):
    caption: str  # what one would tell somebody who cannot see it
    marks: tuple[StageMark, ...]
    here: str = ""  # what stands where the mark HERE is
    share: float | None = None  # how much of the way from HERE to NEXT is behind it
    is_tall: bool = False  # one below the other also where there is room

    @property
    def is_counted(self) -> bool:
        """It tells how many stand where, not how far one has come."""
        return any(mark.state in (SOME, NONE) for mark in self.marks)

    @property
    def legend(self) -> list[tuple[str, str]]:
        used = {mark.state for mark in self.marks}
        found = [(state, text) for state, text in LEGEND.items() if state in used]
        return [*found, *WAYS.items()] if HERE in used else found


def states(count: int, done: int) -> list[str]:
    """Of so many stages the first `done` are behind it."""
    found = []
    for number in range(1, count + 1):
        if number < done:
            found.append(REACHED)
        elif number == done:
            found.append(HERE)
        else:
            found.append(NEXT if number == done + 1 else AHEAD)
    return found
