"""One key, from its first value to no trace: a broker, a delete, and a day that passes in a second.

    python examples/life_of_a_tombstone.py

Starts a broker on a virtual clock, drives it with the command line, and checks each step against
the bytes on disk. Exits with an error if a step does not do what it says.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

LEDGERSTONE = [sys.executable, "-m", "ledgerstone"]
START_TIMEOUT_S = 60.0
KEY = "alice"


class Story:
    """A running broker and the commands sent to it."""

    def __init__(self, directory: Path) -> None:
        self.data = directory / "data"
        ready_file = directory / "ready.json"
        command = [*LEDGERSTONE, "up", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--clock", "virtual", "--log-level", "error"]
        self.process = subprocess.Popen([*command, "--ready-file", str(ready_file)])
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the broker did not start")
            time.sleep(0.01)
        self.bootstrap = json.loads(ready_file.read_text())["bootstrap"]

    def tell(self, *words: str) -> str:
        """Runs one command; prints it and its output."""
        print(f"\n$ ledgerstone {' '.join(words)}", flush=True)
        command = [*LEDGERSTONE, *words, "--bootstrap", self.bootstrap]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        print(done.stdout + done.stderr, end="", flush=True)
        if done.returncode != 0:
            raise SystemExit(f"that failed with exit code {done.returncode}")
        return done.stdout

    def files_with_the_key(self, pattern: str = "*") -> list[Path]:
        found = []
        for path in self.data.rglob(pattern):
            # A file may be renamed or removed while we look.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                if KEY.encode() in path.read_bytes():
                    found.append(path)
        return found

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.expect(condition(), what)

    def expect(self, fact: bool, what: str) -> None:
        print(f"  {'ok' if fact else 'NOT SO'}: {what}", flush=True)
        if not fact:
            raise SystemExit(1)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=START_TIMEOUT_S)


def tell_it(story: Story) -> None:
    read_all = ("consume", "customers", "--from-beginning", "--until-end")
    story.tell("topics", "create", "customers", "--compacted")
    for city in ("Ulm", "Graz"):
        story.tell("produce", "customers", "--key", KEY, "--value", city)
    story.tell("produce", "customers", "--key", "bob", "--value", "Bern")
    story.tell("produce", "customers", "--key", KEY, "--tombstone")
    seen = story.tell(*read_all)
    story.expect("TOMBSTONE" in seen and "Ulm" in seen, "deleted, yet every value is still on disk")

    story.tell("why", "customers", KEY)
    story.tell("compact", "customers", "--wait")
    seen = story.tell(*read_all)
    story.expect("Graz" not in seen, "the first pass has taken the values")
    story.expect("TOMBSTONE" in seen, "the tombstone stays for delete.retention.ms: one day")

    story.tell("clock", "advance", "25h")
    story.wait_until(
        lambda: not story.files_with_the_key("*.log"), "the next pass starts by itself"
    )
    # Replaced files stay for file.delete.delay.ms, in case a reader still has them open.
    story.tell("clock", "advance", "2m")
    seen = story.tell(*read_all)
    story.expect(KEY not in seen and "bob" in seen, "a day later the tombstone is gone, bob is not")
    story.wait_until(lambda: not story.files_with_the_key(), f"no file holds {KEY!r} any more")
    story.tell("cleaner", "history", "customers")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        story = Story(Path(temporary))
        try:
            tell_it(story)
        finally:
            story.end()


if __name__ == "__main__":
    main()
