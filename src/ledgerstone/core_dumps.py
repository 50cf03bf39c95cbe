"""No image of this process is left on a disk, and no other process reads its memory. Shell.

A broker and its workers hold keys, passwords and everybody's records. `RLIMIT_CORE` stops files
that the kernel writes itself, and is inherited by workers. A program that the kernel pipes images
to is not bound by it, so the process is also marked as not dumpable; then no debugger of the same
user can attach, either (root can). An execve takes the mark away: each process sets its own.
"""

import ctypes
import resource
import sys
from collections.abc import Mapping
from typing import Final

# For whoever has to look into a process: leaves it as the system has it.
VARIABLE: Final = "LEDGERSTONE_CORE_DUMPS"
_PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def forbid_core_dumps(environment: Mapping[str, str]) -> None:
    if environment.get(VARIABLE) == "allow":
        return
    # The hard limit, too: nothing that we start can raise it again.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
