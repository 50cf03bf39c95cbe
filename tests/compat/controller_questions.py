"""Requests to the active controller, as brokers and controllers send them, right and wrong.

No broker runs: the requests play brokers 7 and 8. They are asked in order and take less than a
session, so nothing happens between them that was not asked for. What the controller hands out, such
as broker epochs, is kept by a name and put into later requests.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from golden.cluster_plan import CLUSTER_ID
from tests.compat.both_brokers import Case, Keep, known

DIRECTORY: Final = b"\x27" * 16
FEATURES: Final = {
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    "metadata.version": (7, 30),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
    "eligible.leader.replicas.version": (0, 1),
}
FAR: Final = 1 << 40
NO_TOPIC: Final = b"\x01" * 16
TOPIC: Final = "judged"


def _features(without: str = "", **other: tuple[int, int]) -> list[dict[str, Any]]:
    ranges = {**FEATURES, **{name.replace("_", "."): each for name, each in other.items()}}
    return [
        {"name": name, "min_supported_version": low, "max_supported_version": high}
        for name, (low, high) in ranges.items()
        if name != without
    ]


def _listeners(name: str = "PLAINTEXT", port: int = 1) -> list[dict[str, Any]]:
    return [{"name": name, "host": "127.0.0.1", "port": port, "security_protocol": 0}]


def _register(name: str, broker_id: int = 7, **given: Any) -> Case:
    keep = given.pop("keep", ())
    fields = {
        "broker_id": broker_id,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": bytes([broker_id]) * 16,
        "listeners": _listeners(),
        "features": _features(),
        "rack": None,
        "log_dirs": [bytes([0x20 + broker_id]) * 16],
        "previous_broker_epoch": -1,
        **given,
    }
    return Case(f"register: {name}", "BrokerRegistration", fields, keep=keep)


def _heartbeat(name: str, broker_id: int = 7, **given: Any) -> Case:
    fields = {
        "broker_id": broker_id,
        "broker_epoch": known(f"epoch {broker_id}"),
        "current_metadata_offset": FAR,
        "want_fence": False,
        "want_shut_down": False,
        **given,
    }
    return Case(f"heartbeat: {name}", "BrokerHeartbeat", fields)


def _controller(name: str, **given: Any) -> Case:
    fields = {
        "controller_id": 1,
        "incarnation_id": b"\x01" * 16,
        "listeners": _listeners("CONTROLLER"),
        "features": _features(),
        **given,
    }
    return Case(f"controller: {name}", "ControllerRegistration", fields)


def _create(name: str, replicas: int = -1, assigned: Sequence[Sequence[int]] = ()) -> Case:
    topic = {
        "name": name,
        "num_partitions": 1 if not assigned else -1,
        "replication_factor": replicas,
        "assignments": [
            {"partition_index": index, "broker_ids": list(each)}
            for index, each in enumerate(assigned)
        ],
        "configs": [],
    }
    return Case(
        f"create: {name}",
        "CreateTopics",
        {"topics": [topic], "timeout_ms": 10_000},
        keep=(Keep(f"id of {name}", "topics.0.topic_id"),),
    )


def _alter(name: str, *, topic_id: Any = None, partition: int = 0, **given: Any) -> Case:
    isr = given.pop("isr", [(7, -1)])
    fields = {
        "partition_index": partition,
        "leader_epoch": 0,
        "new_isr_with_epochs": [{"broker_id": who, "broker_epoch": at} for who, at in isr],
        "leader_recovery_state": 0,
        "partition_epoch": 0,
        **{key: given[key] for key in given if key not in ("broker_id", "broker_epoch")},
    }
    topic_id = known(f"id of {TOPIC}") if topic_id is None else topic_id
    return Case(
        f"alter partition: {name}",
        "AlterPartition",
        {
            "broker_id": given.get("broker_id", 7),
            "broker_epoch": given.get("broker_epoch", known("epoch 7")),
            "topics": [{"topic_id": topic_id, "partitions": [fields]}],
        },
    )


def _assign(name: str, directory: bytes, partition: int = 0, topic_id: Any = None) -> Case:
    topic_id = known(f"id of {TOPIC}") if topic_id is None else topic_id
    partitions = [{"partition_index": partition}]
    return Case(
        f"assign directories: {name}",
        "AssignReplicasToDirs",
        {
            "broker_id": 7,
            "broker_epoch": known("epoch 7"),
            "directories": [
                {"id": directory, "topics": [{"topic_id": topic_id, "partitions": partitions}]}
            ],
        },
    )


def _feature(name: str, feature: str, level: int, kind: int = 1, *, only: bool = True) -> Case:
    update = {"feature": feature, "max_version_level": level, "upgrade_type": kind}
    fields = {"feature_updates": [update], "validate_only": only}
    return Case(f"features: {name}", "UpdateFeatures", fields)


def _elect(name: str, kind: int, topic: str = TOPIC, partition: int = 0) -> Case:
    wanted = [{"topic": topic, "partitions": [partition]}]
    fields = {"election_type": kind, "topic_partitions": wanted, "timeout_ms": 10_000}
    return Case(f"elect: {name}", "ElectLeaders", fields)


def _reassign(
    name: str, replicas: list[int] | None, topic: str = TOPIC, *, partition: int = 0, **given: Any
) -> Case:
    wanted = [{"partition_index": partition, "replicas": replicas}]
    fields = {"topics": [{"name": topic, "partitions": wanted}], "timeout_ms": 10_000, **given}
    return Case(f"reassign: {name}", "AlterPartitionReassignments", fields)


def _reassignments(name: str, topics: Any = None) -> Case:
    return Case(f"reassignments: {name}", "ListPartitionReassignments", {"topics": topics})


def _producer_ids(name: str, broker_id: int = 7, **given: Any) -> Case:
    fields = {"broker_id": broker_id, "broker_epoch": known("epoch 7"), **given}
    return Case(f"producer ids: {name}", "AllocateProducerIds", fields)


def _unregister(name: str, broker_id: int) -> Case:
    return Case(f"unregister: {name}", "UnregisterBroker", {"broker_id": broker_id})


def _of_brokers() -> Iterator[Case]:
    yield _register("wrong cluster", cluster_id="another")
    yield _register("no features", features=[])
    yield _register("without metadata.version", features=_features("metadata.version"))
    yield _register("metadata.version too old", features=_features(metadata_version=(7, 20)))
    yield _register("metadata.version too new", features=_features(metadata_version=(31, 40)))
    yield _register("without group.version", features=_features("group.version"))
    yield _register("without kraft.version", features=_features("kraft.version"))
    yield _register("no directories", log_dirs=[])
    yield _register("directory twice", log_dirs=[DIRECTORY, DIRECTORY])
    yield _register("reserved directory", log_dirs=[bytes(15) + b"\x01"])
    yield _register("no listeners", 9, listeners=[])
    epoch_7 = (Keep("epoch 7", "broker_epoch"),)
    yield _register("broker 7", keep=epoch_7)
    yield _register("broker 7 again", keep=epoch_7)
    # A fenced broker has no session that could be alive.
    other = b"\x70" * 16
    yield _register("broker 7, other incarnation", incarnation_id=other, keep=epoch_7)
    yield _register("broker 8 in the directory of 7", 8, log_dirs=[DIRECTORY])
    yield _register("broker 8", 8, rack="a", keep=(Keep("epoch 8", "broker_epoch"),))
    yield _heartbeat("unknown broker", 99, broker_epoch=5)
    yield _heartbeat("wrong epoch", broker_epoch=1)
    yield _heartbeat("behind its registration", current_metadata_offset=0)
    yield _create("too-early", 1)
    yield _heartbeat("caught up, wants the fence", want_fence=True)
    yield _heartbeat("caught up")
    yield _heartbeat("caught up, again")
    yield _heartbeat("wants the fence", want_fence=True)
    yield _heartbeat("without the fence")
    yield _register("broker 7 is alive", incarnation_id=b"\x71" * 16)
    yield _register("broker 7 amends", incarnation_id=other, keep=epoch_7)
    yield _heartbeat("after it amended")
    yield _heartbeat("broker 8", 8)
    # Kafka knows the offset of an active broker from the heartbeat after the one that unfenced it.
    yield _heartbeat("broker 8 again", 8)


def _of_partitions() -> Iterator[Case]:
    yield _create("on-a-fenced-broker-too", assigned=[(7, 8, 9)])
    yield _create("too-wide", 4)
    yield _create("to-a-stranger", assigned=[(7, 99)])
    yield _create(TOPIC, assigned=[(7, 8), (8, 7)])
    yield _alter("wrong broker epoch", broker_epoch=1)
    yield _alter("unknown topic", topic_id=NO_TOPIC)
    yield _alter("unknown partition", partition=9)
    yield _alter("leader epoch of the future", leader_epoch=5)
    yield _alter("leader epoch of the past", leader_epoch=-1)
    yield _alter("partition epoch of the future", partition_epoch=5)
    yield _alter("partition epoch of the past", partition_epoch=-1)
    yield _alter("stranger in the ISR", isr=[(7, -1), (8, -1), (9, -1)])
    yield _alter("twice in the ISR", isr=[(7, -1), (8, -1), (8, -1)])
    yield _alter("empty ISR", isr=[])
    yield _alter("recovering", leader_recovery_state=1, isr=[(7, -1), (8, -1)])
    # Not asked: a recovery state that does not exist. Kafka answers nothing but 41 after it.
    yield _alter("wrong epoch of a member", isr=[(7, -1), (8, 1)])
    yield _alter("the same ISR", isr=[(7, -1), (8, -1)])
    yield _assign("unknown directory", b"\x66" * 16)
    yield _assign("its directory", DIRECTORY)
    yield _assign("unknown topic", DIRECTORY, topic_id=NO_TOPIC)
    yield _assign("unknown partition", DIRECTORY, partition=9)
    yield _elect("preferred, leads already", 0)
    yield _elect("unclean, leads already", 1)
    yield _elect("unknown topic", 0, topic="none")
    yield _elect("unknown partition", 0, partition=9)
    yield _elect("unknown kind", 5)
    yield _reassign("unknown topic", [7], topic="none")
    yield _reassign("unknown partition", [7], partition=9)
    yield _reassign("unknown broker", [7, 99])
    yield _reassign("broker twice", [7, 7])
    yield _reassign("to nobody", [])
    yield _reassign("negative broker", [-1])
    yield _reassign("cancel none", None)
    yield _reassign("other factor", [7], allow_replication_factor_change=False)
    yield _reassignments("none")
    yield _reassignments("of a topic", [{"name": TOPIC, "partition_indexes": [0, 1, 9]}])
    yield _producer_ids("a block")
    yield _producer_ids("the next block")
    yield _producer_ids("wrong epoch", broker_epoch=1)
    yield _producer_ids("unknown broker", broker_id=99)


def _of_the_cluster() -> Iterator[Case]:
    yield _feature("unknown", "no.such.feature", 1)
    yield _feature("beyond all", "metadata.version", 99)
    yield _feature("as it is", "metadata.version", 30)
    yield _feature("down, unasked", "metadata.version", 29)
    yield _feature("down, safe", "metadata.version", 29, 2)
    yield _feature("down, unsafe", "metadata.version", 25, 3)
    yield _feature("below all", "metadata.version", 1, 3)
    yield _feature("unknown kind", "metadata.version", 29, 7)
    yield _feature("group.version off", "group.version", 0, 2)
    yield _feature("kraft.version as it is", "kraft.version", 1)
    yield _feature("kraft.version down", "kraft.version", 0, 2)
    yield _feature("kraft.version beyond all", "kraft.version", 2)
    yield _controller("another id", controller_id=44)
    yield _controller("no features", features=[])
    yield _controller("without kraft.version", features=_features("kraft.version"))
    yield _controller("old metadata.version", features=_features(metadata_version=(7, 20)))
    yield _controller("as it is")
    yield _unregister("unknown", 99)
    yield _heartbeat("leads, wants to stop", want_shut_down=True)
    yield _heartbeat("leads, wants to stop, again", want_shut_down=True)
    yield _heartbeat("leads nothing, wants to stop", 8, want_shut_down=True)
    yield _unregister("broker 8", 8)
    yield _heartbeat("unregistered", 8)


CASES: Final = [*_of_brokers(), *_of_partitions(), *_of_the_cluster()]
