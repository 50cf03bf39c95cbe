"""What every colour and mark of the anatomy page means. Pure.

Strips are redrawn while the page is open, so the legend lists all of them, even those not shown at
the moment.
"""

from typing import Final

from ledgerstone.web.course import LEGEND, NONE, SOME, UNKNOWN

# By the class of the part of a box.
COLOURS: Final = (
    ("live", "live: the latest value of its key"),
    ("superseded", "superseded: a later record has its key"),
    ("tombstone", "tombstone: the key is deleted"),
    ("unkeyed", "without a key"),
    ("other", "markers, aborted data, emptied batches"),
    ("undivided", "not counted"),
)
# By a name for the template, and its explanation.
MARKS: Final = (
    ("edge", "a segment; as wide as its bytes"),
    ("active", "the active segment: still written to"),
    ("in-pass", "a running pass is at it"),
    ("offset", "an offset: log start, last stable, high watermark, end"),
    ("first-dirty", "first dirty: no pass has been from here on"),
    ("this-record", "the record you came from"),
    ("band-clean", "clean: a pass has been through it"),
    ("band-dirty", "dirty: no pass has"),
    ("band-active", "active: no pass touches it"),
    ("horizon", "tombstones may go at this time"),
    ("horizon-due", "they may go with the next pass"),
    ("horizon-held", "held back by a group that has not read them"),
    ("horizon-none", "their tombstones were superseded since"),
    ("pass", "the next pass"),
)
STAGE_LEGEND: Final = tuple((state, LEGEND[state]) for state in (SOME, NONE, UNKNOWN))
