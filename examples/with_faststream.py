"""FastStream with Ledgerstone: a service that turns orders into receipts, and deletes into deletes.

    python examples/with_faststream.py [BOOTSTRAP]

Without an address it starts its own broker. A subscriber with typed messages publishes to a second
topic; a deleted order becomes a deleted receipt. Exits with an error if one does not arrive.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faststream.kafka import KafkaBroker, KafkaMessage

TIMEOUT_S = 60


@contextlib.contextmanager
def a_broker() -> Iterator[str]:
    """A broker of our own for as long as the block lasts; its address."""
    with tempfile.TemporaryDirectory() as directory:
        ready = Path(directory, "ready.json")
        command = [sys.executable, "-m", "ledgerstone", "up", "--data", f"{directory}/data"]
        command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready), "--log-level", "error"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not ready.exists():
                if process.poll() is not None:
                    raise SystemExit("the broker did not start")
                time.sleep(0.01)
            yield str(json.loads(ready.read_text())["bootstrap"])
        finally:
            process.terminate()
            process.wait(timeout=60)


def record_of(message: KafkaMessage) -> Any:  # noqa: ANN401 - aiokafka has no types
    """The record as received. A message body is b"" for a null value and for an empty one; only the
    record tells a delete from an empty value."""
    record = message.raw_message
    assert not isinstance(record, tuple), "these subscribers take no batches"
    return record


class Shop:
    """Orders in, receipts out; `receipts` holds what has arrived at the other end."""

    def __init__(self, bootstrap: str) -> None:
        name = uuid.uuid4().hex[:8]
        self.orders, self.made = f"orders-{name}", f"receipts-{name}"
        self.receipts: dict[str, Any] = {}
        self.changed = asyncio.Event()
        self.kafka = KafkaBroker(bootstrap, logger=None)
        self.kafka.subscriber(self.orders, group_id=f"shop-{name}", auto_offset_reset="earliest")(
            self.answer
        )
        self.kafka.subscriber(self.made, group_id=f"desk-{name}", auto_offset_reset="earliest")(
            self.arrive
        )

    async def answer(self, message: KafkaMessage) -> None:
        record = record_of(message)
        if record.value is None:
            await self.kafka.publish(None, topic=self.made, key=record.key)
            return
        order = json.loads(record.value)
        receipt = {"total": order["pieces"] * order["price"]}
        await self.kafka.publish(receipt, topic=self.made, key=record.key)

    async def arrive(self, message: KafkaMessage) -> None:
        record = record_of(message)
        key = record.key.decode()
        if record.value is None:
            self.receipts.pop(key, None)
        else:
            self.receipts[key] = json.loads(record.value)
        self.changed.set()

    async def has(self, expected: dict[str, Any]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.receipts != expected:
                await self.changed.wait()
                self.changed.clear()
        print(f"receipts: {self.receipts}", flush=True)


async def main(bootstrap: str) -> None:
    shop = Shop(bootstrap)
    async with shop.kafka:
        await shop.kafka.start()
        for key, pieces in ((b"o-1", 2), (b"o-2", 5)):
            await shop.kafka.publish({"pieces": pieces, "price": 3}, topic=shop.orders, key=key)
        await shop.has({"o-1": {"total": 6}, "o-2": {"total": 15}})
        await shop.kafka.publish(None, topic=shop.orders, key=b"o-1")
        await shop.has({"o-2": {"total": 15}})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with a_broker() as address:
            asyncio.run(main(address))
