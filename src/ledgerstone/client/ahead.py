"""One answer ahead: the next is fetched while the present one is worked on. Shell: a thread.

It pays because sockets and kernels let go of the interpreter.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def one_ahead(source: Iterator[T]) -> Iterator[T]:
    """What `source` gives, none of it None. Nobody else may use what it uses until this ends."""
    with ThreadPoolExecutor(max_workers=1) as thread:
        coming = thread.submit(next, source, None)
        while (current := coming.result()) is not None:
            coming = thread.submit(next, source, None)
            yield current
