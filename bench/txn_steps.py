"""The steps of a transaction, in process and without sockets, beside a plain produced record.

    python -m bench.txn_steps [--quick]

One producer of the classic protocol, one record of 100 B for each of its three partitions. The
tenth percentile: what it takes when nothing disturbs it.
"""

import argparse
import struct
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Final

from bench.in_process import Answered, InProcessBroker, frame_of
from bench.storage import scratch
from bench.table import Row, render
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest
from ledgerstone.protocol.messages.find_coordinator import FindCoordinatorRequest
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.produce import (
    ProducePartitionData,
    ProduceRequest,
    ProduceTopicData,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import load

PARTITIONS: Final = 3
_VALUE: Final = bytes(100)
_ID: Final = "bench"
# Length, correlation id, no tags, throttle time; then what is asked for.
_NEW_PRODUCER: Final = struct.Struct(">iibi hqh")
_WARM_UP: Final = 200
_MOST_TRIES: Final = 100


class _Producer:
    def __init__(self, broker: InProcessBroker) -> None:
        self._broker = broker
        topics = [
            CreateTopicsRequestTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
            for name in ("plain", "txn")
        ]
        broker.ask(frame_of(CreateTopicsRequest(topics=topics), 7))
        find = FindCoordinatorRequest(key_type=1, coordinator_keys=[_ID])
        init = InitProducerIdRequest(transactional_id=_ID, transaction_timeout_ms=60_000)
        for _ in range(_MOST_TRIES):
            # The coordinator makes its partitions, and loads them, a few in each turn.
            broker.ask(frame_of(find, 4))
            answer = broker.ask(frame_of(init, 4))
            *_, code, self._id, self._epoch = _NEW_PRODUCER.unpack_from(answer.body)
            if code == 0:
                break
            broker.tick()
        assert code == 0, f"InitProducerId: error {code}"
        self._sequence = 0

    def plain(self) -> list[Answered]:
        return [self._produce("plain", 0, build_batch([_record()]), None)]

    def add(self) -> list[Answered]:
        topic = AddPartitionsToTxnTopic(name="txn", partitions=list(range(PARTITIONS)))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=_ID,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[topic],
        )
        return [self._broker.ask(frame_of(request, 3))]

    def produce(self) -> list[Answered]:
        batch = build_batch(
            [_record()],
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        self._sequence += 1
        return [self._produce("txn", number, batch, _ID) for number in range(PARTITIONS)]

    def end(self) -> list[Answered]:
        return [self._broker.ask(frame_of(EndTxnRequest(_ID, self._id, self._epoch, True), 3))]

    def _produce(
        self, topic: str, number: int, batch: bytearray, transactional_id: str | None
    ) -> Answered:
        data = ProducePartitionData(index=number, records=batch)
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=1000,
            topic_data=[ProduceTopicData(name=topic, partition_data=[data])],
        )
        return self._broker.ask(frame_of(request, 9))


def run(*, quick: bool = False) -> list[Row]:
    load()
    with scratch() as path:
        broker = InProcessBroker(path, transaction_state_log_num_partitions="1")
        producer = _Producer(broker)
        steps: dict[str, Callable[[], list[Answered]]] = {
            "a plain Produce": producer.plain,
            "AddPartitionsToTxn": producer.add,
            "a transactional Produce": producer.produce,
            "EndTxn": producer.end,
        }
        found: dict[str, list[float]] = {}
        for number in range(300 if quick else 3000):
            for name, step in steps.items():
                for answered in step():
                    if number >= _WARM_UP:
                        found.setdefault(name, []).append(answered.until_answer_us)
                        after = f"what follows {name}"
                        found.setdefault(after, []).append(answered.afterwards_us)
        broker.close()
    usual = {name: quantiles(each, n=10)[0] for name, each in found.items()}
    peer = "a plain Produce"
    return [
        Row(name, cost, "µs", "" if name == peer else peer, usual[peer], usual[peer] / cost, None)
        for name, cost in usual.items()
        if cost > 1
    ]


def _record() -> tuple[int, bytes, bytes, tuple[()]]:
    return int(time.time() * 1000), b"k", _VALUE, ()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data")
    print(render(run(quick=parser.parse_args().quick)))


if __name__ == "__main__":
    main()
