"""CRC-32C, of the package `crc32c`, without what else that package imports. Pure.

Its `__init__` looks up its own version and has a command line: 24 ms and 2.4 MB of every start and
of every worker. The function is in a compiled module, which needs none of that. A release that has
it elsewhere is imported as a whole.
"""

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol

from ledgerstone.types import Buffer


class Checksum(Protocol):
    def __call__(self, data: Buffer, value: int = 0, /) -> int:
        """`value`: the checksum of what comes before `data`."""


def _load() -> Checksum:
    package = PathFinder.find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    compiled = PathFinder.find_spec("crc32c._crc32c", places)
    if compiled is None or compiled.loader is None:
        from crc32c import crc32c as found

        return found
    module = module_from_spec(compiled)
    compiled.loader.exec_module(module)
    checksum: Checksum = module.crc32c
    return checksum


crc32c: Final = _load()
