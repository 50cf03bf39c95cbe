"""The kit accepts correct consumers, whatever their client and style."""

from collections.abc import Awaitable

from ledgerstone.testing.conformance import ConsumerTask, RunningConsumer, TombstoneConformance
from ledgerstone.testing.conformance.task import State
from tests.testing.consumers import Ours, aio, confluent, kafka_python


class TestConfluent(TombstoneConformance):
    def consume(self, task: ConsumerTask) -> State:
        return confluent(task)


class TestKafkaPython(TombstoneConformance):
    def consume(self, task: ConsumerTask) -> State:
        return kafka_python(task)


class TestAioKafka(TombstoneConformance):
    def consume(self, task: ConsumerTask) -> Awaitable[State]:
        return aio(task)


class TestOurs(TombstoneConformance):
    def start(self, task: ConsumerTask) -> RunningConsumer:
        return Ours(task)
