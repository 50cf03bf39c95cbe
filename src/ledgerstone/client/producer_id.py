"""The id and epoch that a producer's batches carry. Pure."""

from typing import Final, NamedTuple

from ledgerstone.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID


class ProducerId(NamedTuple):
    producer_id: int
    producer_epoch: int


NO_PRODUCER: Final = ProducerId(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
