"""Two formatters of one `server.properties`: Kafka's kafka-storage, and `ledgerstone format`."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CLUSTER_ID = "TGVkZ2Vyc3RvbmVHb2xkZQ"


def properties_file(path: Path, settings: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def kafka_tool(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Any of Kafka's command-line tools, by the name of its class."""
    from golden.kafka_tools import fetch_jars

    command = fetch_jars().java(tool, *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def kafka_storage(*arguments: str) -> subprocess.CompletedProcess[str]:
    return kafka_tool("kafka.tools.StorageTool", *arguments)


def ledgerstone(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ledgerstone", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
