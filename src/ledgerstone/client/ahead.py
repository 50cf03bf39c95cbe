"""Fetches the next response while the current one is processed. Shell: a thread.

It pays off because sockets and kernels release the interpreter lock.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(source: Iterator[T]) -> Iterator[T]:
    """Yields from `source`, which must not yield None and must not be shared until this ends."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming = thread.submit(next, source, None)
        while (current := coming.result()) is not None:
            coming = thread.submit(next, source, None)
            yield current
