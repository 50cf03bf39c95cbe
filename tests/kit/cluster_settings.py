"""Settings of nodes in a quorum: sound ones, and what is refused, here and by Apache Kafka."""

from typing import Final, NamedTuple

COMBINED: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
    "controller.quorum.bootstrap.servers": "127.0.0.1:19093,127.0.0.1:29093",
}
CONTROLLER: Final = {
    **COMBINED,
    "process.roles": "controller",
    "listeners": "CONTROLLER://127.0.0.1:19093",
}
BROKER: Final = {
    **COMBINED,
    "process.roles": "broker",
    "listeners": "PLAINTEXT://127.0.0.1:19092",
}
STATIC: Final = {
    **COMBINED,
    "controller.quorum.bootstrap.servers": "",
    "controller.quorum.voters": "1@10.0.0.1:19093,2@10.0.0.2:19093",
}

SOUND: Final = {
    "combined": COMBINED,
    "controller": CONTROLLER,
    "broker": BROKER,
    "static": STATIC,
    "both ways to find the quorum": {
        **STATIC,
        "controller.quorum.bootstrap.servers": "127.0.0.1:19093",
    },
    "a controller on every address, advertised": {
        **COMBINED,
        "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://:19093",
        "advertised.listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://node1:19093",
    },
    "a static controller on every address": {
        **STATIC,
        "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://0.0.0.0:19093",
    },
    "a role twice": {**COMBINED, "process.roles": "broker,controller,broker"},
    "mapped names": {
        **COMBINED,
        "listeners": "LAN://127.0.0.1:19092,CTL://127.0.0.1:19093",
        "controller.listener.names": "CTL",
        "inter.broker.listener.name": "LAN",
        "listener.security.protocol.map": "LAN:PLAINTEXT,CTL:PLAINTEXT",
    },
    "heartbeats too slow for the session, which is only advice": {
        **COMBINED,
        "broker.heartbeat.interval.ms": "6000",
    },
}


class Refused(NamedTuple):
    """`kafka` is part of what Kafka says; None if Kafka accepts it."""

    settings: dict[str, str]
    key: str
    reason: str
    kafka: str | None


REFUSED: Final = {
    "unknown role": Refused(
        {**COMBINED, "process.roles": "witness"},
        "process.roles",
        "one of broker, controller",
        "broker",
    ),
    "no role": Refused({**COMBINED, "process.roles": ""}, "process.roles", "must be", "empty"),
    "roles without an id": Refused(
        {key: value for key, value in COMBINED.items() if key != "node.id"},
        "node.id",
        "must be set",
        "node.id",
    ),
    "no way to find the quorum": Refused(
        {**COMBINED, "controller.quorum.bootstrap.servers": ""},
        "controller.quorum.bootstrap.servers",
        "must be set",
        "either controller.quorum.bootstrap.servers must",
    ),
    "a controller that is no voter": Refused(
        {**STATIC, "node.id": "3"},
        "controller.quorum.voters",
        "must contain this controller, node 3",
        "must be included in the set of voters",
    ),
    "a broker that is a voter": Refused(
        {
            **BROKER,
            "controller.quorum.voters": "1@10.0.0.1:19093",
            "controller.quorum.bootstrap.servers": "",
        },
        "controller.quorum.voters",
        "must not contain node 1",
        "must not be included in the set of voters",
    ),
    "a broker that serves a controller's listener": Refused(
        {**BROKER, "listeners": COMBINED["listeners"]},
        "controller.listener.names",
        "must not be a listener",
        "must not contain a value appearing in the 'listeners'",
    ),
    "no name of a controller listener": Refused(
        {**BROKER, "controller.listener.names": ""},
        "controller.listener.names",
        "must name at least one",
        "controller.listener.names",
    ),
    "a controller that serves clients": Refused(
        {**CONTROLLER, "listeners": COMBINED["listeners"]},
        "listeners",
        "must only have listeners of controller.listener.names",
        "must only contain KRaft controller listeners",
    ),
    "a controller without its listener": Refused(
        {**COMBINED, "listeners": "PLAINTEXT://127.0.0.1:19092"},
        "controller.listener.names",
        "must be one of the listeners of a controller",
        "must contain at least one value appearing in the 'listeners'",
    ),
    "a broker without a listener for clients": Refused(
        {**COMBINED, "listeners": "CONTROLLER://127.0.0.1:19093"},
        "listeners",
        "must have a listener for clients",
        "at least one broker advertised listener",
    ),
    "brokers meet on a listener that is not advertised": Refused(
        {**COMBINED, "inter.broker.listener.name": "SSL"},
        "inter.broker.listener.name",
        "must be a listener that is advertised",
        "must be a listener name defined in advertised.listeners",
    ),
    "brokers meet on a listener of controllers": Refused(
        {**COMBINED, "inter.broker.listener.name": "CONTROLLER"},
        "inter.broker.listener.name",
        "must not be one of controller.listener.names",
        "must be a listener name defined in advertised.listeners",
    ),
    "brokers meet nowhere": Refused(
        {
            **COMBINED,
            "listeners": "LAN://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
            "listener.security.protocol.map": "LAN:PLAINTEXT,CONTROLLER:PLAINTEXT",
        },
        "inter.broker.listener.name",
        "one of LAN",
        "must be a listener name defined in advertised.listeners",
    ),
    "two ways to say where brokers meet": Refused(
        {
            **COMBINED,
            "inter.broker.listener.name": "PLAINTEXT",
            "security.inter.broker.protocol": "PLAINTEXT",
        },
        "inter.broker.listener.name",
        "cannot be set with",
        "Only one of",
    ),
    "a listener without protocol": Refused(
        {**COMBINED, "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT"},
        "listener.security.protocol.map",
        "must name the protocol of the listener CONTROLLER",
        "No security protocol defined for listener CONTROLLER",
    ),
    "an unknown protocol": Refused(
        {**COMBINED, "listener.security.protocol.map": "PLAINTEXT:CLEAR"},
        "listener.security.protocol.map",
        "must be name:protocol",
        "CLEAR",
    ),
    "clients are sent to no address": Refused(
        {**COMBINED, "listeners": "PLAINTEXT://0.0.0.0:19092,CONTROLLER://127.0.0.1:19093"},
        "advertised.listeners",
        "must be set",
        "nonroutable",
    ),
    "a voter without address": Refused(
        {**STATIC, "controller.quorum.voters": "1"},
        "controller.quorum.voters",
        "id@host:port",
        "{id}@{host}:{port}",
    ),
    "a voter without number": Refused(
        {**STATIC, "controller.quorum.voters": "one@10.0.0.1:19093"},
        "controller.quorum.voters",
        "id@host:port",
        "voter ID",
    ),
    "a voter without port": Refused(
        {**STATIC, "controller.quorum.voters": "1@10.0.0.1"},
        "controller.quorum.voters",
        "port",
        "{id}@{host}:{port}",
    ),
    "a bootstrap server without port": Refused(
        {**COMBINED, "controller.quorum.bootstrap.servers": "10.0.0.1"},
        "controller.quorum.bootstrap.servers",
        "port",
        "{host}:{port}",
    ),
    "a broker that would join the voters": Refused(
        {**BROKER, "controller.quorum.auto.join.enable": "true"},
        "controller.quorum.auto.join.enable",
        "needs the role controller",
        "only supported when process.roles contains the 'controller' role",
    ),
    "small metadata segments": Refused(
        {**COMBINED, "metadata.log.segment.bytes": "1024"},
        "metadata.log.segment.bytes",
        "at least 8388608",
        "at least 8388608",
    ),
    # Kafka takes these. It tells other nodes its host name, leaves a voter out, or serves what is
    # not served here.
    "nodes are sent to no address": Refused(
        {**COMBINED, "listeners": "PLAINTEXT://127.0.0.1:19092,CONTROLLER://0.0.0.0:19093"},
        "advertised.listeners",
        "must have CONTROLLER",
        None,
    ),
    "a voter twice": Refused(
        {**STATIC, "controller.quorum.voters": "1@10.0.0.1:19093,1@10.0.0.2:19093"},
        "controller.quorum.voters",
        "must name each node once",
        None,
    ),
    "a listener that is not in the map, beside one with TLS": Refused(
        {
            **COMBINED,
            "listeners": "SSL://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093",
            "security.inter.broker.protocol": "SSL",
        },
        "listener.security.protocol.map",
        "must name the protocol of the listener CONTROLLER",
        "No security protocol defined for listener CONTROLLER",
    ),
}
