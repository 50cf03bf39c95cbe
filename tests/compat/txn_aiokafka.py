"""aiokafka behind the face of transactional clients."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import aiokafka
from aiokafka.errors import ProducerFenced as AioProducerFenced

from tests.compat.txn_face import LEVELS, OPEN_MS, TIMEOUT_S, Fenced, Pair, Read

T = TypeVar("T")


class AioKafkaProducer:
    def __init__(self, loop: asyncio.AbstractEventLoop, **settings: Any) -> None:
        self._loop = loop
        self._sent: list[Any] = []
        self._settings = settings
        self._producer: aiokafka.AIOKafkaProducer | None = None

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, TIMEOUT_S))
        except AioProducerFenced as error:
            raise Fenced(str(error)) from error

    def init(self) -> None:
        async def started() -> None:
            self._producer = aiokafka.AIOKafkaProducer(**self._settings)
            await self._producer.start()

        self._run(started())

    @property
    def _started(self) -> aiokafka.AIOKafkaProducer:
        assert self._producer is not None
        return self._producer

    def begin(self) -> None:
        self._run(self._started.begin_transaction())

    def send(self, topic: str, key: str, value: str | None, partition: int = 0) -> None:
        encoded = None if value is None else value.encode()
        work = self._started.send(topic, key=key.encode(), value=encoded, partition=partition)
        self._sent.append(self._run(work))

    def flush(self) -> None:
        async def flushed() -> None:
            sent, self._sent = self._sent, []
            await asyncio.gather(*sent)

        self._run(flushed())

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._run(self._started.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        self._run(self._started.commit_transaction())

    def abort(self) -> None:
        self._run(self._started.abort_transaction())

    def vanish(self) -> None:
        # Its sender task would go on; without a connection nothing it says arrives.
        async def cut() -> None:
            # Or it complains of not having been stopped.
            self._started._closed = True
            task = self._started._sender._sender_task
            if task is not None and not task.done():
                task.cancel()
                await asyncio.wait([task])
            await self._started.client.close()

        self._run(cut())


class AioKafka:
    name = "aiokafka"

    def __init__(self, bootstrap: str, work: Path) -> None:
        self.bootstrap = bootstrap
        self._loop = asyncio.new_event_loop()
        # A fenced producer fails in more futures than there are callers.
        self._loop.set_exception_handler(lambda *_: None)

    def producer(self, transactional_id: str, timeout_ms: int = OPEN_MS) -> AioKafkaProducer:
        return AioKafkaProducer(
            self._loop,
            bootstrap_servers=self.bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, 2 * TIMEOUT_S))

    def read(self, topic: str, partition: int = 0, *, committed: bool = True) -> Read:
        return self._run(self._read(topic, partition, committed=committed))

    async def _read(self, topic: str, partition: int, *, committed: bool) -> Read:
        place = aiokafka.TopicPartition(topic, partition)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap, isolation_level=LEVELS[committed]
        )
        await consumer.start()
        try:
            consumer.assign([place])
            consumer.seek(place, 0)
            end = (await consumer.end_offsets([place]))[place]
            found: list[Pair] = []
            while await consumer.position(place) < end:
                for records in (await consumer.getmany(place, timeout_ms=200)).values():
                    found += [
                        (each.key.decode(), None if each.value is None else each.value.decode())
                        for each in records
                    ]
            return Read(found, await consumer.position(place))
        finally:
            await consumer.stop()

    def end(self, topic: str, *, committed: bool) -> int:
        async def asked() -> int:
            place = aiokafka.TopicPartition(topic, 0)
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap, isolation_level=LEVELS[committed]
            )
            await consumer.start()
            try:
                return int((await consumer.end_offsets([place]))[place])
            finally:
                await consumer.stop()

        return self._run(asked())

    def committed_offset(self, group: str, topic: str) -> int:
        async def asked() -> int:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap, group_id=group, enable_auto_commit=False
            )
            await consumer.start()
            try:
                found = await consumer.committed(aiokafka.TopicPartition(topic, 0))
                return -1 if found is None else int(found)
            finally:
                await consumer.stop()

        return self._run(asked())

    def close(self) -> None:
        self._loop.close()
