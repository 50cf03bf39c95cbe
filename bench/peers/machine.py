"""What a run was made on and with. Shell."""

import os
import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

import confluent_kafka

import ledgerstone
from bench.peers.contestants import KAFKA_JVM
from golden.kafka_tools import KAFKA_VERSION, KafkaJars

_LOOK_S: Final = 2.0
_QUIET: Final = 0.1
# Columns of the first line of /proc/stat.
_IDLE, _WAITS_FOR_DISK = 3, 4


def describe(jars: KafkaJars | None) -> dict[str, str]:
    found = {
        "Machine": f"{os.cpu_count()} CPUs ({_cpu_name()}), {_memory_gib():.0f} GiB, "
        f"{_filesystem(Path.cwd())}, Linux {platform.release()}",
        "Ledgerstone": f"{ledgerstone.__version__}, CPython {platform.python_version()}, defaults",
    }
    if jars is not None:
        found["Apache Kafka"] = (
            f"{jars.version}, one combined KRaft node, defaults; {_java()}, "
            f"{' '.join(KAFKA_JVM)} as kafka-server-start sets it"
        )
    found["Client"] = (
        f"librdkafka {confluent_kafka.libversion()[0]} by confluent-kafka "
        f"{confluent_kafka.version()}, over loopback"
    )
    return found


def busy_note() -> str | None:
    """For a reader of figures that are taken beside other work; None on a quiet machine. Asked
    while nothing of ours runs: the load average would count what was measured before."""
    busy_before, before = _busy_and_all_ticks()
    time.sleep(_LOOK_S)
    busy_after, after = _busy_and_all_ticks()
    share = (busy_after - busy_before) / max(after - before, 1)
    if share <= _QUIET:
        return None
    return (
        f"Other work took {share:.0%} of the machine's processors before this began: compare the "
        "ratios, not the times."
    )


def _busy_and_all_ticks() -> tuple[int, int]:
    """Of all processors since the system started."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    ticks = [int(each) for each in first.split()[1:]]
    return sum(ticks) - ticks[_IDLE] - ticks[_WAITS_FOR_DISK], sum(ticks)


def versions(jars: KafkaJars | None) -> str:
    peer = f"Apache Kafka {KAFKA_VERSION}" if jars is not None else "no Apache Kafka"
    return f"Ledgerstone {ledgerstone.__version__}, {peer}"


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)


def _filesystem(path: Path) -> str:
    """The type of the mount with the longest path above this one."""
    best, kind = "", "unknown file system"
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _, mount, found, *_ = line.split()
        if path.is_relative_to(mount) and len(mount) >= len(best):
            best, kind = mount, found
    return kind


def _java() -> str:
    if shutil.which("java") is None:
        return "no Java"
    done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()[0].replace('"', "") if done.stderr else "Java"
