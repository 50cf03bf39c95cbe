"""WriteTxnMarkers (27). Grade D.

Behaviour: ends transactions in partitions that this broker leads, as their coordinator, or an
operator with `kafka-transactions abort`, asks for. Answered once every marker is committed.
UNKNOWN_TOPIC_OR_PARTITION where this broker hosts no such partition, NOT_LEADER_OR_FOLLOWER where
it does not lead it or its group shard loads, INVALID_PRODUCER_EPOCH for a marker of a producer that
was replaced, TRANSACTION_COORDINATOR_FENCED for one of an old coordinator.
Versions: 1-2; 1 is written by the rule of transaction version 0, as in Kafka.
"""

from functools import partial

from ledgerstone.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request


def handle(broker: Broker, request: Request, message: WriteTxnMarkersRequest) -> Answer:
    broker.markers.write_markers(message, partial(broker.answer, request))
    return ANSWERED_LATER
