"""Batches as the kernels of a cleaning take them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledgerstone.records.kernels import Arena, Payloads, scan
from ledgerstone.types import Buffer


class Opened(NamedTuple):
    payloads: Payloads
    actions: NDArray[np.uint8]


def opened(window: Buffer) -> Opened:
    """All batches of a window, none of them to be discarded."""
    batches = scan(window)
    actions = np.zeros(len(batches), np.uint8)
    payloads = Arena(1 << 20).open(
        window, batches, actions, first=0, payload_limit=1 << 20, has_compressed=True
    )
    return Opened(payloads, actions)
