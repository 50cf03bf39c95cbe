"""Replacing segments by rewritten ones, so that a crash leaves either the old or the new.

Grade D. The loader's half of the protocol is `log_loader.settle_interrupted_swap`; both follow the
crash-point table in README.md. The order of the renames is the commit protocol:

1. new `.cleaned` files are complete and synced     Crash here: `.cleaned` is thrown away.
2. new segments become `.swap`, highest base first  Crash here: a `.cleaned` is left, so every
   `.swap` at or above it is thrown away too. Once the last (lowest) is renamed the swap is decided.
3. old segments become `.deleted`, lowest first     Crash here: leftovers in range are deleted.
4. new segments lose `.swap`, lowest first          Crash here: the loader finishes the renames.
5. the directory is synced
"""

from collections.abc import Callable, Sequence

from ledgerstone.fs import Filesystem
from ledgerstone.storage.filenames import SWAP
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segments import Segments


def replace_segments(
    fs: Filesystem,
    segments: Segments,
    *,
    new: Sequence[Segment],
    old: Sequence[Segment],
    discard: Callable[[Segment], None],
) -> None:
    """Puts `new` (complete, suffix `.cleaned`) in the place of `old`: all five steps.

    `discard` renames a segment's files to `.deleted` and schedules their removal."""
    for segment in new:
        segment.flush()
    fs.fsync_dir(new[0].directory)
    rename_segments(segments, new=new, old=old, set_aside=discard)
    fs.fsync_dir(new[0].directory)


def rename_segments(
    segments: Segments,
    *,
    new: Sequence[Segment],
    old: Sequence[Segment],
    set_aside: Callable[[Segment], None],
) -> None:
    """Steps 2 to 4, which are quick. The caller has done step 1 and does step 5; no replaced file
    may be unlinked before that.

    Old segments that are no longer in the log (retention was faster) are left alone."""
    ascending = sorted(new, key=lambda segment: segment.base_offset)
    still_here = [segment for segment in old if segment in segments]

    for segment in reversed(ascending):
        segment.change_suffix(SWAP)
    for segment in still_here:
        segments.remove(segment.base_offset)
    for segment in ascending:
        segments.add(segment)
    for segment in sorted(still_here, key=lambda segment: segment.base_offset):
        set_aside(segment)
    for segment in ascending:
        segment.change_suffix("")
