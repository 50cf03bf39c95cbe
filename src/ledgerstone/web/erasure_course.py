"""The progress of an erasure, and its alarms, for the page. Pure."""

from typing import Any, Final

from ledgerstone.erasure.erasure import Stage
from ledgerstone.web.course import AHEAD, HERE, NEXT, REACHED, Course, StageMark

# The stages of an erasure that ends with a receipt.
_WAY: Final = (
    Stage.REQUESTED,
    Stage.SEARCHED,
    Stage.TOMBSTONED,
    Stage.STAMPED,
    Stage.REMOVED,
    Stage.UNLINKED,
    Stage.VERIFIED,
    Stage.RECEIPTED,
)
_TEXTS: Final = {
    Stage.SCHEDULED: "it begins at the time that was asked for",
    Stage.REQUESTED: "asked for and written down",
    Stage.SEARCHED: "every file was searched: which partitions get a tombstone is decided",
    Stage.TOMBSTONED: "the tombstones are written: readers see the delete",
    Stage.STAMPED: "first compaction: older values are gone, delete.retention.ms counts",
    Stage.REMOVED: "second compaction: the tombstones are gone too",
    Stage.UNLINKED: "the files that were replaced are removed",
    Stage.VERIFIED: "every file was scanned, and the key is in none",
    Stage.RECEIPTED: "the receipt is signed",
    Stage.CANCELLED: "it was cancelled before anything was deleted",
    Stage.ABANDONED: "it was given up: there is no receipt",
    Stage.NOT_FOUND: "no record of the key was found, so nothing was deleted",
}
# Worst first: the page's words for what blocks an erasure.
OVERDUE: Final = "overdue"
BLOCKED: Final = "blocked"
AT_RISK: Final = "at risk"
ALARMS: Final = (OVERDUE, BLOCKED, AT_RISK)


def course_of_erasure(erasure: dict[str, Any]) -> Course:
    """`erasure` is its JSON from the API."""
    now = Stage(erasure["stage"])
    reached = {Stage(each["stage"]): each["at_ms"] for each in erasure["stages"]}
    way = [*reached, *(each for each in _WAY if each not in reached and not erasure["is_over"])]
    following = next((each for each in way if each not in reached), None)
    marks = []
    for stage in way:
        state = HERE if stage is now else REACHED if stage in reached else AHEAD
        at_ms, text = reached.get(stage), _TEXTS.get(stage, "")
        if stage is following:
            state, at_ms = NEXT, erasure["waits_until_ms"]
            text = f"waits for: {erasure['waits_for']}" if erasure["waits_for"] else text
        marks.append(StageMark(stage.value.replace("_", " "), state, text, at_ms))
    caption = f"The erasure is {now.value.replace('_', ' ')}"
    return Course(caption, tuple(marks), "it is here", is_tall=True)


def alarm_of(erasure: dict[str, Any]) -> str | None:
    """Why an operator must look at it; None if that is not needed."""
    if erasure["is_over"] or erasure["stage"] == Stage.VERIFIED.value:
        return BLOCKED if erasure["status"] == "residue found" else None
    if erasure["is_overdue"]:
        return OVERDUE
    is_endless = erasure["blocked_by"] is not None
    if erasure["status"] == "residue found" or is_endless:
        return BLOCKED
    return AT_RISK if erasure["will_miss"] else None
