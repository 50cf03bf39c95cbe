"""Git as a program: one call, or a stream of its output. Shell.

Only plumbing is called: its output does not depend on the user's settings. It writes nothing to the
repository, fetches nothing, and never asks for a password.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ledgerstone.demo.errors import DemoFailed, NoRepository

_READ_BYTES: Final = 1 << 16
_SHOWN_BYTES: Final = 300
# A hook, or a shell inside one, would lead every call to another repository.
_ELSEWHERE: Final = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR",
    "GIT_NAMESPACE", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX",
)  # fmt: skip
_QUIETLY: Final = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}


class Git:
    """The repository that `directory` is in."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        kept = {name: text for name, text in os.environ.items() if name not in _ELSEWHERE}
        self._environment = {**kept, **_QUIETLY}

    def check(self) -> None:
        """Raises NoRepository if there is none with a commit."""
        try:
            self.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        except FileNotFoundError as error:
            missing = error.filename
            what = "git is not installed" if missing == "git" else f"there is no {missing}"
            raise NoRepository(what) from error
        except (DemoFailed, NotADirectoryError) as error:
            raise NoRepository(
                f"{self.directory} is not in a git repository with a commit ({error})"
            ) from error

    def ask(self, *words: str, lines: Iterable[str] = ()) -> bytes:
        """All that the call prints; `lines` are its standard input."""
        with self.stream(*words, lines=lines) as chunks:
            return b"".join(chunks)

    @contextmanager
    def stream(self, *words: str, lines: Iterable[str] = ()) -> Iterator[Iterator[bytes]]:
        """Its output as it arrives. Leaving the context early ends git."""
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
            given.writelines(line.encode() + b"\n" for line in lines)
            given.seek(0)
            process = subprocess.Popen(
                ["git", *words],
                cwd=self.directory,
                env=self._environment,
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=complaints,
            )
            assert process.stdout is not None
            output, is_at_end = process.stdout, False

            def chunks() -> Iterator[bytes]:
                nonlocal is_at_end
                while data := output.read(_READ_BYTES):
                    yield data
                is_at_end = True

            try:
                yield chunks()
            finally:
                if not is_at_end:
                    process.kill()
                output.close()
                process.wait()
            complaints.seek(0)
            said = complaints.read(_SHOWN_BYTES).decode("utf-8", "replace").strip()
        if is_at_end and process.returncode != 0:
            raise DemoFailed(f"git {words[0]} ended with {process.returncode}: {said}")
