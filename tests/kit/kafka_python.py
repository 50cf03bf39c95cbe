"""Clients of kafka-python, as every test makes them: each is closed at the end of its `with`.

One that a failed test left open would go on in threads of its own, beside the tests that follow.
"""

import warnings
from typing import Any, Final

with warnings.catch_warnings():
    # It reads its schemas with a deprecated function; the suite treats warnings as errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka

# kafka-python 3.0.12 forgets that it has to ask: a topic that is added while a metadata request is
# on its way is not in that request, but the answer clears the mark that was set for the topic
# (`ClusterMetadata.update_metadata`). Nothing asks again before the metadata are too old, which
# by default they are after five minutes. A broker that gives no metadata fails a test as before.
METADATA_MAX_AGE_MS: Final = 1_000


def consumer(bootstrap: str, *topics: str, **settings: Any) -> kafka.KafkaConsumer:
    return kafka.KafkaConsumer(
        *topics, bootstrap_servers=bootstrap, metadata_max_age_ms=METADATA_MAX_AGE_MS, **settings
    )


def producer(bootstrap: str, **settings: Any) -> kafka.KafkaProducer:
    return kafka.KafkaProducer(
        bootstrap_servers=bootstrap, metadata_max_age_ms=METADATA_MAX_AGE_MS, **settings
    )
