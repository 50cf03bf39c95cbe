"""Stages on a line, and progress along it: the parts of stage drawings. Pure.

Colour alone never distinguishes marks: each state has a shape, and a word for readers who cannot
see it. `LEGEND` explains every shape that a drawing may use.
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
    caption: str  # for readers who cannot see the drawing
    marks: tuple[StageMark, ...]
    here: str = ""  # what stands where the mark HERE is
    share: float | None = None  # how much of the way from HERE to NEXT is behind it
    is_tall: bool = False  # one below the other also where there is room

    @property
    def is_counted(self) -> bool:
        """Whether it shows counts per stage, not the progress of one thing."""
        return any(mark.state in (SOME, NONE) for mark in self.marks)

    @property
    def legend(self) -> list[tuple[str, str]]:
        used = {mark.state for mark in self.marks}
        found = [(state, text) for state, text in LEGEND.items() if state in used]
        return [*found, *WAYS.items()] if HERE in used else found


def states(count: int, done: int) -> list[str]:
    """The states of `count` stages, of which the first `done` are done."""
    found = []
    for number in range(1, count + 1):
        if number < done:
            found.append(REACHED)
        elif number == done:
            found.append(HERE)
        else:
            found.append(NEXT if number == done + 1 else AHEAD)
    return found
