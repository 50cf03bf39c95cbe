"""The `kafka.*` options: which apply, which have no effect here, and why others are refused. Pure.

An ignored option is worse than none: with `kafka.security.protocol=SASL_SSL` ignored, a query would
read in plain text. So an option in none of these lists is refused, with the closest known name.
docs/spark.md has the lists for users.
"""

from difflib import get_close_matches
from typing import Final

from ledgerstone.client.security import SECURITY_PROPERTIES
from ledgerstone.errors import ConfigError

PREFIX: Final = "kafka."

_BOTH: Final = (
    "bootstrap.servers",
    "client.id",
    "max.partition.fetch.bytes",
    *SECURITY_PROPERTIES,
)
READ: Final = (*_BOTH, "group.id", "isolation.level")
WRITE: Final = (*_BOTH, "acks", "batch.size", "compression.type", "transaction.timeout.ms")

# Options that tune the Java client's threads, buffers and retries have no effect here. They are
# accepted, so that a query moves here by changing its format; results do not depend on them.
CHANGES_NOTHING: Final = (
    "auto.commit.interval.ms",
    "buffer.memory",
    "check.crcs",  # they are checked
    "client.dns.lookup",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.idempotence",  # a sink is
    "enable.metrics.push",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "heartbeat.interval.ms",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.poll.interval.ms",
    "max.poll.records",
    "max.request.size",
    "metadata.max.age.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.strategy",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retries",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
)

# By the beginning of the name.
_REFUSED: Final = {
    "sasl.": "logins have sasl.mechanism, sasl.jaas.config, sasl.username and sasl.password",
    "ssl.": "there is no Java class to load it into, or it is no property of TLS",
    "security.providers": "there is no Java class to load them into",
    "transactional.id": "exactlyOnce=true names transactions after the query and its tasks",
    "partitioner.": "a key goes where Java's default partitioner sends it; a column named "
    "partition says otherwise",
    "compression.": "a codec is used at its usual level",
    "auto.offset.reset": "say where to start with startingOffsets",
    "key.deserializer": "keys are bytes; decode them with DataFrame operations",
    "value.deserializer": "values are bytes; decode them with DataFrame operations",
    "key.serializer": "keys are bytes or text; encode them with DataFrame operations",
    "value.serializer": "values are bytes or text; encode them with DataFrame operations",
    "enable.auto.commit": "Spark keeps the offsets; a group is told where the query is",
    "interceptor.classes": "there is no Java class to load them into",
    "metric.reporters": "there is no Java class to load them into",
    "group.": "a group here has no members; it is told where the query is",
    "partition.assignment.strategy": "a group here has no members; Spark plans the tasks",
    "client.rack": "every partition is read from its leader",
}

# Of Spark, and of its own connector where they tune what is not here.
_OTHERS: Final = (
    "checkpointlocation",
    "fetchoffset.numretries",
    "fetchoffset.retryintervalms",
    "kafkaconsumer.polltimeoutms",
    "path",
    "queryname",
)
_KAFKA_NAMES: Final = (*READ, *WRITE, *_REFUSED, *CHANGES_NOTHING)


def check_kafka_option(name: str, value: str, known: tuple[str, ...]) -> None:
    """`name` is in lower case, with its prefix; `known` are the options that apply."""
    plain = name.removeprefix(PREFIX)
    if plain in known or plain in CHANGES_NOTHING:
        return
    if plain in READ or plain in WRITE:
        side = "reads" if plain in READ else "writes"
        raise ConfigError(name, value, f"an option of {side} only")
    for beginning, instead in _REFUSED.items():
        if plain == beginning or (beginning.endswith(".") and plain.startswith(beginning)):
            # A value may be a password.
            raise ConfigError(name, "…", f"not an option here: {instead}")
    near = get_close_matches(plain, (*known, *_REFUSED, *CHANGES_NOTHING), n=1, cutoff=0.7)
    hint = f"; did you mean {PREFIX}{near[0].rstrip('.')}?" if near else ""
    raise ConfigError(name, "…", f"there is no such option here{hint}")


def check_own_option(name: str, known: tuple[str, ...]) -> None:
    """An option without the prefix. Spark and SQL add their own options to the user's, so unknown
    ones pass; one that resembles ours does not."""
    names = {each.lower(): each for each in known}
    if name in names or name in _OTHERS:
        return
    near = get_close_matches(name, names, n=1, cutoff=0.85)
    if near:
        raise ConfigError(name, "…", f"unknown option; did you mean {names[near[0]]}?")
    if name in _KAFKA_NAMES:
        raise ConfigError(name, "…", f"unknown option; did you mean {PREFIX}{name}?")
