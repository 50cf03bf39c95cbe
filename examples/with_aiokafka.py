"""aiokafka with Ledgerstone: a cache that follows a compacted topic and forgets deleted keys.

    python examples/with_aiokafka.py [BOOTSTRAP]

Without an address it starts its own broker. One task writes, another keeps a dictionary up to date
from the topic alone. Exits with an error if the cache keeps a deleted key.
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

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

TIMEOUT_S = 30


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


async def create_topic(bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        configs = {"cleanup.policy": "compact"}
        await admin.create_topics(
            [NewTopic(topic, num_partitions=1, replication_factor=1, topic_configs=configs)]
        )
    finally:
        await admin.close()


class Cache:
    """The topic as a dictionary. `changed` is set after each applied record."""

    def __init__(self) -> None:
        self.sessions: dict[str, str] = {}
        self.changed = asyncio.Event()

    async def follow(self, bootstrap: str, topic: str) -> None:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            async for record in consumer:
                key = record.key.decode()
                if record.value is None:
                    self.sessions.pop(key, None)
                else:
                    self.sessions[key] = record.value.decode()
                self.changed.set()
        finally:
            await consumer.stop()

    async def becomes(self, expected: dict[str, str]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while self.sessions != expected:
                await self.changed.wait()
                self.changed.clear()
        print(f"the cache is {self.sessions}", flush=True)


async def main(bootstrap: str) -> None:
    topic = f"sessions-{uuid.uuid4().hex[:8]}"
    await create_topic(bootstrap, topic)
    cache = Cache()
    following = asyncio.create_task(cache.follow(bootstrap, topic))
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap)
    await producer.start()
    try:
        await producer.send_and_wait(topic, key=b"s1", value=b"alice")
        await producer.send_and_wait(topic, key=b"s2", value=b"bob")
        await cache.becomes({"s1": "alice", "s2": "bob"})
        await producer.send_and_wait(topic, key=b"s1", value=None)
        await cache.becomes({"s2": "bob"})
    finally:
        await producer.stop()
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(main(sys.argv[1]))
    else:
        with a_broker() as address:
            asyncio.run(main(address))
