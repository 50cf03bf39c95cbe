"""Apache Kafka's own cleaner as a peer: one warm process that cleans copies of our logs.

Its jars come the way tools/golden fetches them; where they cannot be had, there is no peer. The log
is linked, not copied: a cleaner writes new files and leaves the old one alone.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple, Self

from golden.kafka_tools import KafkaJars, KafkaToolError, fetch_jars

HEAP_MB = 1024
SOURCE = Path(__file__).with_name("KafkaCleaner.java")


class KafkaPass(NamedTuple):
    """Seconds by the clock, and of CPU in the thread that cleans; what it left."""

    seconds: float
    cpu_seconds: float
    records_written: int
    bytes_written: int


class KafkaCleaner:
    """Spent after `close`. The first passes run before its machine code is good: discard them."""

    def __init__(self, jars: KafkaJars, scratch: Path) -> None:
        classes = scratch / "classes"
        libraries = f"{jars.directory / 'libs'}/*"
        compile_command = ["javac", "-d", str(classes), "-cp", libraries, str(SOURCE)]
        subprocess.run(compile_command, check=True, capture_output=True)
        # As a broker runs: the server compiler, the default collector.
        self._process = subprocess.Popen(
            ["java", f"-Xmx{HEAP_MB}m", "-cp", f"{classes}{os.pathsep}{libraries}", SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._directory = scratch / "peer-0"

    @classmethod
    def start(cls, scratch: Path) -> Self | None:
        """None if there is no Java or the jars cannot be fetched."""
        try:
            return cls(fetch_jars(), scratch)
        except (KafkaToolError, OSError, subprocess.CalledProcessError):
            return None

    def clean(self, log: Path) -> KafkaPass:
        """One pass over a partition that holds nothing but this sealed segment."""
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir()
        os.link(log, self._directory / log.name)
        for ending in (".index", ".timeindex"):
            (self._directory / log.name).with_suffix(ending).touch()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._directory}\n")
        self._process.stdin.flush()
        # Its logging goes to the same output.
        for line in self._process.stdout:
            words = line.split()
            if words and words[0] == "CLEANED":
                return KafkaPass(float(words[1]), float(words[2]), int(words[3]), int(words[4]))
        raise RuntimeError(f"Kafka's cleaner ended with {self._process.wait()}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
