"""Where an answer may differ from Apache Kafka's, each with its reason.

docs/differences.md tells the same to users. An entry that no answer needs any more fails the test.
"""

from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from tests.compat.both_brokers import Case, Difference

ANY: Final = object()


class Accepted(NamedTuple):
    """`case` and `path` may hold `*`; the values are what each broker says there."""

    case: str
    path: str
    kafka: object
    ours: object
    reason: str


_OUR_WORDS: Final = "we say what is wrong where Kafka says nothing"
_OWN_KEYS: Final = "settings of ours"
_BROKER_VALUE: Final = "a bad value is INVALID_CONFIG, whosever it is"
_OPERATION: Final = "Kafka fails on it as on a fault of its own"
_NO_CLIENT_METRICS: Final = "client metrics are not built"
_CODEC: Final = "Kafka fails on it as on a fault of its own, from version 7 on it says the same"
_DUPLICATE: Final = "a topic that keeps the producer's time has no append time, also on a repeat"
_UNSET: Final = "Kafka must have it while eligible leader replicas are on; here there are none"

ACCEPTED: Final = [
    Accepted("*", "*error_message", None, "words", _OUR_WORDS),
    Accepted("*", "*error_message", "", "words", _OUR_WORDS),
    Accepted("create*", "*.configs.ledgerstone.*", "absent", ANY, _OWN_KEYS),
    Accepted("create, only asked", "topics.0.topic_id", "by chance", "none",
             "what was not made has no id"),
    Accepted("produce, unknown codec", "*.error_code", -1, 76, _CODEC),
    Accepted("produce, control batch", "*.log_start_offset", 0, -1,
             "refused before the log is looked at"),
    Accepted("produce, the same*", "*.log_append_time_ms", "by chance", -1, _DUPLICATE),
    Accepted("alter, * operation", "*.error_code", -1, 42, _OPERATION),
    Accepted("alter, bad broker value", "*.error_code", 42, 40, _BROKER_VALUE),
    Accepted("alter, bad value for all", "*.error_code", 42, 40, _BROKER_VALUE),
    Accepted("alter, all brokers, nobody in sync", "*.error_code", 42, 40, _BROKER_VALUE),
    Accepted("alter, all brokers in sync again", "*.error_code", 40, 0, _UNSET),
    Accepted("alter, all brokers in sync again", "*.error_message", "words", None, _UNSET),
    Accepted("describe, client metrics", "*", ANY, ANY, _NO_CLIENT_METRICS),
    Accepted("find coordinator, share by partition", "*.error_code", 15, 42,
             "share groups are not built"),
    Accepted("new groups, no id", "error_code", 42, 35, "groups of type consumer are not built"),
]  # fmt: skip


def is_accepted(case: Case, difference: Difference) -> Accepted | None:
    for each in ACCEPTED:
        if (
            fnmatchcase(case.name, each.case)
            and fnmatchcase(difference.path, each.path)
            and each.kafka in (ANY, difference.kafka)
            and each.ours in (ANY, difference.ours)
        ):
            return each
    return None
