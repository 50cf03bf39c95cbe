"""Erasures of a broker process, as its HTTP API and its files show them."""

import contextlib
from base64 import b64encode
from pathlib import Path

from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import get


def base64(key: bytes) -> str:
    return b64encode(key).decode()


def await_receipt(broker: BrokerProcess, erasure_id: str, timeout_s: float = 60.0) -> bytes:
    """The very bytes that were signed."""
    wait_until(
        lambda: get(broker, f"erasures/{erasure_id}")["has_receipt"],
        f"{erasure_id} has a receipt: {get(broker, f'erasures/{erasure_id}')}",
        timeout_s,
    )
    return broker.get(f"/api/v1/erasures/{erasure_id}/receipt").encode()


def files_with(directory: Path, data: bytes) -> list[Path]:
    found = []
    for path in sorted(directory.rglob("*")):
        # A file may be renamed or removed while we look.
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            if data in path.read_bytes():
                found.append(path)
    return found
