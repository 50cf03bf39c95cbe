"""Erases a person: an erasure, the table that follows it, a receipt, and no trace left. Shell.

The broker does the work. This module advances the clock to each due moment, updates the table once
the tombstone is written, and reports the table's result before the receipt is signed.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledgerstone.cli.admin_http import AdminApi, topic_path
from ledgerstone.demo.encoding import AUTHORS, Author
from ledgerstone.demo.errors import DemoFailed
from ledgerstone.demo.passing_time import advance, wait_until
from ledgerstone.erasure.receipt import canonical, verify
from ledgerstone.erasure.sealing import public_key_of
from ledgerstone.erasure.secrets_file import load
from ledgerstone.system import OsFilesystem

VERIFIER: Final = "tables"
_BEFORE_THE_TOMBSTONE: Final = ("scheduled", "requested", "searched")
_READ_BYTES: Final = 1 << 20

Finding = tuple[str, str, str]  # output, verdict, evidence


class Forgotten(NamedTuple):
    erasure_id: str
    receipt: Path
    receipt_bytes: int
    files_before: int
    files_searched: int
    virtual_ms: int


class Forgetting:
    def __init__(self, api: AdminApi, directory: Path, data: Path, author: Author) -> None:
        self._api = api
        self._directory = directory
        self._data = data
        self._author = author

    def run(self, downstream: Callable[[], list[Finding]] | None) -> Forgotten:
        """`downstream` updates the tables, and returns what is left of the key in them."""
        before = len(self._files_with_the_key())
        if not before:
            raise DemoFailed(f"no file holds {self._author.key!r}, but one should")
        asked = self._ask(has_tables=downstream is not None)
        erasure_id: str = asked["id"]
        if downstream is not None:
            self._wait_past(erasure_id, _BEFORE_THE_TOMBSTONE, "the tombstone")
            for output, verdict, evidence in downstream():
                body = {"verifier": VERIFIER, "output": output}
                said = {**body, "verdict": verdict, "evidence": evidence}
                self._api.post(f"erasures/{erasure_id}/evidence", said)
        ended = self._wait_for_end(erasure_id)
        receipt = self._keep_receipt(erasure_id)
        left = self._files_with_the_key()
        if left:
            raise DemoFailed(f"{self._author.key!r} is still in {', '.join(map(str, left[:3]))}")
        return Forgotten(
            erasure_id=erasure_id,
            receipt=receipt,
            receipt_bytes=receipt.stat().st_size,
            files_before=before,
            files_searched=sum(1 for _ in self._files()),
            virtual_ms=ended["now_ms"] - asked["stages"][0]["at_ms"],
        )

    def _ask(self, *, has_tables: bool) -> dict[str, Any]:
        body = {
            "key": b64encode(self._author.key).decode(),
            "reason": "asked to be forgotten",
            "requested_by": "demo",
            "within_ms": 30 * 86_400_000,
            "verifiers": [VERIFIER] if has_tables else [],
        }
        erasure: dict[str, Any] = self._api.post(topic_path(AUTHORS, "erasures"), body)["erasures"][
            0
        ]
        return erasure

    def _wait_past(self, erasure_id: str, stages: tuple[str, ...], what: str) -> None:
        wait_until(lambda: self._look(erasure_id)["stage"] not in stages, what)

    def _wait_for_end(self, erasure_id: str) -> dict[str, Any]:
        erasure: dict[str, Any] = {}

        def is_over() -> bool:
            nonlocal erasure
            erasure = self._look(erasure_id)
            until_ms, now_ms = erasure["waits_until_ms"], erasure["now_ms"]
            if until_ms is not None and until_ms > now_ms:
                advance(self._api, until_ms - now_ms)
            return bool(erasure["is_over"])

        wait_until(is_over, f"erasure {erasure_id}")
        if erasure["stage"] != "receipted":
            raise DemoFailed(f"erasure {erasure_id} ended {erasure['stage']}: {erasure['note']}")
        return erasure

    def _look(self, erasure_id: str) -> dict[str, Any]:
        erasure = self._api.get(f"erasures/{erasure_id}")
        if erasure["status"] == "residue found":
            raise DemoFailed(f"erasure {erasure_id}: residue found: {erasure['waits_for']}")
        return erasure

    def _keep_receipt(self, erasure_id: str) -> Path:
        """Saves and verifies it: unchanged, signed by this broker, for this key."""
        path = self._directory / "receipt.json"
        path.write_bytes(canonical(self._api.get(f"erasures/{erasure_id}/receipt")))
        secrets = load(OsFilesystem(), str(self._data / "erasure.keys"))
        if secrets is None:
            raise DemoFailed(f"there is no erasure.keys in {self._data}")
        found = verify(
            path.read_bytes(),
            public_key=public_key_of(secrets.signing_seed),
            key=self._author.key,
            salt=secrets.salt,
        )
        if not found.ok:
            raise DemoFailed(f"the receipt does not verify: {'; '.join(found.reasons)}")
        return path

    # -- searching the files ourselves ----------------------------------------------------------

    def _files(self) -> Iterator[Path]:
        """Everything the demo wrote: logs, tables, checkpoints, the receipt."""
        return (path for path in sorted(self._directory.rglob("*")) if path.is_file())

    def _files_with_the_key(self) -> list[Path]:
        return [path for path in self._files() if _holds(path, self._author.key)]


def _holds(path: Path, key: bytes) -> bool:
    tail = b""
    try:
        with path.open("rb") as file:
            while data := file.read(_READ_BYTES):
                if key in tail + data:
                    return True
                tail = data[-len(key) :]
    except FileNotFoundError:
        # Files come and go during the search.
        return False
    return False
