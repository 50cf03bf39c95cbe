"""`quorum-state`: durable with its directory before anything of it is used. Disk.

A missing file is a replica that never voted. An unreadable one stops the start: a default would be
a second vote.
"""

from typing import Final

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, join
from ledgerstone.raft.hard_state import (
    HardState,
    UnreadableHardState,
    decode_hard_state,
    encode_hard_state,
)

FILE_NAME: Final = "quorum-state"
_TEMPORARY: Final = ".tmp"


class QuorumStateFile:
    __slots__ = ("_directory", "_fs", "path")

    def __init__(self, fs: Filesystem, directory: str) -> None:
        self._fs = fs
        self._directory = directory
        self.path = join(directory, FILE_NAME)

    def load(self) -> HardState:
        """Also makes what was read durable: the process before this one may have died between
        its rename and the directory's sync, and power may still take the name back."""
        try:
            file = self._fs.open(self.path)
        except FileNotFoundError:
            return HardState()
        try:
            data = file.pread(file.size(), 0)
            state = decode_hard_state(data)
            file.fsync()
        except UnreadableHardState as error:
            raise CorruptFile(
                self.path, 0, f"{error}; without it this voter may vote twice"
            ) from error
        finally:
            file.close()
        self._fs.fsync_dir(self._directory)
        return state

    def store(self, state: HardState, *, kraft_version: int, voter_ids: tuple[int, ...]) -> None:
        """Returns when it is durable. Crash here, at any step: the old state or the new one."""
        temporary = self.path + _TEMPORARY
        data = encode_hard_state(state, kraft_version=kraft_version, voter_ids=voter_ids)
        file = self._fs.open(temporary, create=True)
        try:
            # An earlier crash may have left a longer one.
            file.truncate(0)
            file.pwrite(data, 0)
            file.fsync()
        finally:
            file.close()
        self._fs.rename(temporary, self.path)
        self._fs.fsync_dir(self._directory)
