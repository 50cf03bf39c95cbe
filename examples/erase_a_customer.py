"""Erases a customer: finds the key, writes tombstones, scans every file, and verifies the receipt.

    python examples/erase_a_customer.py

Starts a broker on a virtual clock, drives it with the command line, and checks each step against
the bytes on disk. Exits with an error if a step does not do what it says.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEDGERSTONE = [sys.executable, "-m", "ledgerstone"]
START_TIMEOUT_S = 60.0
KEY = "alice@example.org"


class Story:
    """A running broker and the commands sent to it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.data = directory / "data"
        self.log = directory / "broker.log"
        ready_file = directory / "ready.json"
        command = [*LEDGERSTONE, "up", "--data", str(self.data), "--listen", "127.0.0.1:0"]
        command += ["--http", "127.0.0.1:0", "--clock", "virtual", "--ready-file", str(ready_file)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the broker did not start")
            time.sleep(0.01)
        self.bootstrap = json.loads(ready_file.read_text())["bootstrap"]

    def tell(self, *words: str, expect: int = 0, needs_broker: bool = True) -> str:
        """Runs one command; prints it and its output."""
        shown = [word.replace(str(self.directory), ".") for word in words]
        print(f"\n$ ledgerstone {' '.join(shown)}", flush=True)
        command = [*LEDGERSTONE, *words]
        if needs_broker:
            command += ["--bootstrap", self.bootstrap]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        print(done.stdout + done.stderr, end="", flush=True)
        if done.returncode != expect:
            raise SystemExit(f"that ended with exit code {done.returncode}, not {expect}")
        return done.stdout

    def files_with_the_key(self) -> list[Path]:
        found = []
        for path in self.data.rglob("*"):
            # A file may be renamed or removed while we look.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                if KEY.encode() in path.read_bytes():
                    found.append(path)
        return found

    def expect(self, fact: bool, what: str) -> None:
        print(f"  {'ok' if fact else 'NOT SO'}: {what}", flush=True)
        if not fact:
            raise SystemExit(1)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=START_TIMEOUT_S)


def tell_it(story: Story) -> None:
    receipt = story.directory / "receipt.json"
    story.tell("topics", "create", "customers", "--compacted", "--partitions", "3")
    for city in ("Ulm", "Graz"):
        story.tell("produce", "customers", "--key", KEY, "--value", city)
    # A producer with another partitioner wrote the same key to another partition.
    story.tell("produce", "customers", "--key", KEY, "--value", "Bern", "--partition", "2")
    story.tell("produce", "customers", "--key", "bob", "--value", "Linz")
    places = story.tell("where", "customers", KEY)
    story.expect(places.count("live") == 2, "the key lives in two partitions")

    said = story.tell(
        "erase", "customers", KEY, "--by", "30d", "--reason", "ticket 4711", "--wait",
        "--receipt", str(receipt),
    )  # fmt: skip
    story.expect("receipted" in said, "a day and a minute of the broker's time later it is done")
    story.expect(not story.files_with_the_key(), "no file holds the key any more")
    story.expect(KEY not in story.log.read_text(), "nor does the broker's log")
    story.expect(KEY not in receipt.read_text(), "nor does the receipt")
    seen = story.tell("consume", "customers", "--from-beginning", "--until-end")
    story.expect("bob" in seen, "bob is still there")

    keys_file = str(story.data / "erasure.keys")
    check = ("verify-receipt", str(receipt), "--keys-file", keys_file, "--key", KEY)
    checked = story.tell(*check, needs_broker=False)
    story.expect("it is about the key given" in checked, "the receipt holds, and for this key")
    receipt.write_text(receipt.read_text().replace("4711", "4712"))
    refused = story.tell(*check, needs_broker=False, expect=1)
    story.expect("something was changed" in refused, "one digit changed, and it does not hold")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        story = Story(Path(temporary))
        try:
            tell_it(story)
        finally:
            story.end()


if __name__ == "__main__":
    main()
