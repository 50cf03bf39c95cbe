"""`python -m ledgerstone.sim.controller`: plays seeds or a script, and ends in one line. Shell.

    --seeds 200            seeds 0 to 199
    --seeds 40 --first 7   seeds 7 to 46
    --script FILE          one scenario
    --trace                also print every step of a single run
    --jobs 2               processes; each seed runs in one

Exit code 1 where a checker failed. Each failing seed names the command that replays it; the first
one of each checker is shrunk to a script.
"""

import sys
from functools import partial

from ledgerstone.sim.controller.cluster import run
from ledgerstone.sim.controller.marks import missing
from ledgerstone.sim.controller.scenario import SIMPLER, draw, parse
from ledgerstone.sim.seeds import Profile, play

PROFILE = Profile(
    module="ledgerstone.sim.controller",
    name="controller",
    draw=draw,
    parse=parse,
    run=run,
    traced=partial(run, keeps_trace=True),
    simpler=SIMPLER,
    missing=missing,
)


def main(arguments: list[str] | None = None) -> int:
    return play(PROFILE, arguments)


if __name__ == "__main__":
    sys.exit(main())
