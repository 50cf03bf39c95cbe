"""The broker keys of replication between brokers. Pure; `cluster` gives them types.

Names, types, defaults and ranges are Kafka's. A single node uses none of them.
"""

from typing import Final

from ledgerstone.config.broker_key import BrokerKey, Update, int_key
from ledgerstone.config.setting import ConfigType
from ledgerstone.types import INT64_MAX

_FETCHING: Final = (
    int_key(
        "num.replica.fetchers",
        1,
        "Connections over which a follower fetches from each leader. Partitions are spread over "
        "them.",
    ),
    int_key(
        "replica.fetch.wait.max.ms",
        500,
        "How long a leader may hold a follower's fetch that has less than replica.fetch.min.bytes.",
        at_least=0,
    ),
    int_key(
        "replica.fetch.min.bytes",
        1,
        "Bytes that a leader waits for before it answers a follower's fetch.",
        at_least=0,
    ),
    int_key(
        "replica.fetch.max.bytes",
        1_048_576,
        "Most bytes of one partition in an answer to a follower; a larger batch still comes.",
        at_least=0,
    ),
    int_key(
        "replica.fetch.response.max.bytes",
        10_485_760,
        "Most bytes of all partitions in an answer to a follower.",
        at_least=0,
    ),
    int_key(
        "replica.fetch.backoff.ms",
        1000,
        "Pause of a partition after its fetch failed.",
        at_least=0,
    ),
    int_key(
        "replica.socket.timeout.ms",
        30_000,
        "How long a follower waits for an answer before it closes the connection.",
    ),
    int_key(
        "replica.socket.receive.buffer.bytes",
        65_536,
        "No effect: the system sizes the buffers of sockets.",
        at_least=-1,
    ),
)

_THROTTLES: Final = (
    *(
        BrokerKey(
            name=f"{role}.replication.throttled.rate",
            kind=ConfigType.LONG,
            default=INT64_MAX,
            doc=f"Most bytes a second that this broker {verb} for replicas that "
            f"{role}.replication.throttled.replicas of their topic names, while they are not in "
            "the ISR.",
            at_least=0,
            update=Update.PER_BROKER,
        )
        for role, verb in (("leader", "sends"), ("follower", "fetches"))
    ),
    int_key(
        "replication.quota.window.num",
        11,
        "Windows over which the rate of throttled replication is averaged.",
    ),
    int_key(
        "replication.quota.window.size.seconds",
        1,
        "Length of such a window.",
    ),
)

REPLICATION_KEYS: Final = (*_FETCHING, *_THROTTLES)
