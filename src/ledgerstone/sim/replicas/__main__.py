"""`python -m ledgerstone.sim.replicas`: plays seeds or a script, and ends in one line. Shell.

Arguments are those of `ledgerstone.sim.quorum`.
"""

import sys
from functools import partial

from ledgerstone.sim.replicas.cluster import run
from ledgerstone.sim.replicas.marks import missing
from ledgerstone.sim.replicas.scenario import SIMPLER, draw, parse
from ledgerstone.sim.seeds import Profile, play

PROFILE = Profile(
    module="ledgerstone.sim.replicas",
    name="replicas",
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
