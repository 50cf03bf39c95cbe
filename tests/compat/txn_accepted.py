"""Where an answer about transactions may differ from Apache Kafka's, each with its reason.

An entry that no answer needs any more fails the test with a real Kafka.
"""

from fnmatch import fnmatchcase
from typing import Final

from tests.compat.answers_accepted import ANY, Accepted
from tests.compat.both_brokers import Difference

__all__ = ["ACCEPTED", "ANY", "accepted"]

_OUR_WORDS: Final = "we say what is wrong where Kafka says nothing"

_DUPLICATE: Final = "a topic that keeps the producer's time has no append time, also on a repeat"

# `case` is the script's name, a slash and the step's label.
ACCEPTED: Final = [
    Accepted("*", "*error_message", None, "words", _OUR_WORDS),
    Accepted("produce refused*", "*.log_append_time_ms", "by chance", -1, _DUPLICATE),
    Accepted("add taken*/6 *", "*.results_by_partition.*", ANY, ANY,
             "a partition that is named twice is answered once"),
]  # fmt: skip


def accepted(script: str, label: str, difference: Difference) -> Accepted | None:
    for each in ACCEPTED:
        if (
            fnmatchcase(f"{script}/{label}", each.case)
            and fnmatchcase(difference.path, each.path)
            and each.kafka in (ANY, difference.kafka)
            and each.ours in (ANY, difference.ours)
        ):
            return each
    return None
