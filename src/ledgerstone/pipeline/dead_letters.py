"""Sends dead letters: at least once, or each once. Shell over a `Client`.

Each once means: a letter and its place in the source are written in one transaction. A run that
reads the same records again finds the place and sends no letter twice. The place holds for one
topic id: a topic that was created again begins anew.
"""

from collections.abc import Sequence

from ledgerstone.client.blocking import Client
from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.producer import NewRecord, Producer, ProducerConfig
from ledgerstone.client.txn_errors import TransactionError
from ledgerstone.errors import LedgerstoneError
from ledgerstone.pipeline.bad_records import Letter, SendLetters
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.writing_once import WriterOnce
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text


def letter_sender(client: Client, pipeline: Pipeline, partition: int | None = None) -> SendLetters:
    """For letters of one partition, or of all. Tasks of different partitions send at once; a later
    attempt of a task fences an earlier one that still lives."""
    if pipeline.exactly_once:
        return LettersOnce(client, pipeline, partition).send
    producer = Producer(client, ProducerConfig(idempotent=True))

    def send(letters: Sequence[Letter]) -> None:
        for outcome in producer.send([_record(each) for each in letters]):
            if isinstance(outcome, LedgerstoneError):
                raise PipelineError(f"a dead letter cannot be sent: {outcome}") from outcome

    return send


class LettersOnce:
    def __init__(self, client: Client, pipeline: Pipeline, partition: int | None = None) -> None:
        self._topic = pipeline.source.topic
        info = client.topic(self._topic)
        self._topic_id = uuid_to_text(info.topic_id)
        numbers = info.partitions if partition is None else [partition]
        self._partitions = [TopicPartition(self._topic, number) for number in numbers]
        group = f"{pipeline.source.group}-dead-letters"
        name = group if partition is None else f"{group}-{partition}"
        if pipeline.source.topics:
            name += f"-{self._topic}"
        self._writer = WriterOnce(client, name, group)
        self._sent: dict[int, int] | None = None  # partition: the offset after the last letter

    def send(self, letters: Sequence[Letter]) -> None:
        try:
            sent = self._sent_before()
            left = [each for each in letters if each.offset >= sent.get(each.partition, 0)]
            if not left:
                return
            reach = dict(sent)
            for each in left:
                reach[each.partition] = max(reach.get(each.partition, 0), each.offset + 1)
            notes = {
                TopicPartition(self._topic, number): CommittedOffset(
                    offset, metadata=self._topic_id
                )
                for number, offset in reach.items()
            }
            self._writer.write([_record(each) for each in left], notes)
            self._sent = reach
        except TransactionError as error:
            raise PipelineError(f"a dead letter cannot be sent: {error}") from error

    def _sent_before(self) -> dict[int, int]:
        if self._sent is None:
            self._sent = {
                partition.partition: noted.offset
                for partition, noted in self._writer.noted(self._partitions).items()
                if noted.metadata == self._topic_id
            }
        return self._sent


def _record(letter: Letter) -> NewRecord:
    return NewRecord(letter.topic, letter.key, letter.value, letter.headers)
