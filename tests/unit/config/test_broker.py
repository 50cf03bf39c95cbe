"""A broker's settings: where they come from, what is refused, what is only remarked upon."""

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

import ledgerstone
from ledgerstone.cleaner.planning import CleanerSettings
from ledgerstone.config.broker import BrokerConfig, Listener, from_environment, load_broker_config
from ledgerstone.config.broker_key import Update
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.cluster import ClusterConfig
from ledgerstone.config.setting import ConfigType
from ledgerstone.config.topic import TOPIC_KEYS
from ledgerstone.coordinator.turn import GroupConfig
from ledgerstone.errors import ConfigError
from ledgerstone.storage.log_config import LogConfig
from tests.kit.cluster_settings import COMBINED


def _load(*overrides: str) -> BrokerConfig:
    return load_broker_config(overrides=overrides).config


def _refusal(*overrides: str) -> ConfigError:
    with pytest.raises(ConfigError) as raised:
        load_broker_config(overrides=overrides)
    return raised.value


# -- the keys ------------------------------------------------------------------------------------


def test_defaults_of_the_typed_configs_are_those_of_the_keys() -> None:
    broker, group = BrokerConfig.from_raw({}), GroupConfig()

    for config in (broker, group):
        for field in fields(config):
            key = BROKER_KEYS.get(field.name.replace("_", "."))
            value = getattr(config, field.name)
            if key is not None and not isinstance(value, tuple):
                assert value == key.default, field.name
    assert broker.listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert group.offsets_retention_ms == broker.offsets_retention_minutes * 60_000


@pytest.mark.parametrize("config", [BrokerConfig, GroupConfig, LogConfig, CleanerSettings])
def test_no_typed_config_repeats_a_default(config: type) -> None:
    (declared,) = ast.parse(inspect.getsource(config)).body

    assert isinstance(declared, ast.ClassDef)
    for line in declared.body:
        if isinstance(line, ast.AnnAssign) and line.value is not None:
            text = ast.unparse(line)
            allowed = ("_DEFAULT[", "init=False", "= field(repr=False)")
            assert any(each in text for each in allowed), text


def test_every_field_of_the_broker_config_is_read_outside_config() -> None:
    source = Path(ledgerstone.__file__).parent
    texts = [
        path.read_text(encoding="utf-8")
        for path in source.rglob("*.py")
        if not path.is_relative_to(source / "config")
    ]
    # Through is_broker and is_controller; and what replicas will connect to.
    read = {"roles", "inter_broker_listener_name"}

    unread = []
    for field in (*fields(BrokerConfig), *fields(ClusterConfig)):
        # Parsing takes seconds for all of them, so only a text that may tell is parsed.
        telling = (text for text in texts if f".{field.name}" in text)
        while field.name not in read and (text := next(telling, None)) is not None:
            nodes = ast.walk(ast.parse(text))
            read |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        unread += [field.name] * (field.name not in read)

    assert unread == []


def test_every_default_is_a_value_its_key_accepts() -> None:
    for key in BROKER_KEYS.values():
        if key.default_text is not None:
            assert key.parse(key.default_text) == key.default, key.name


def test_every_synonym_of_a_topic_key_is_a_broker_key() -> None:
    for topic_key in TOPIC_KEYS.values():
        for synonym in topic_key.synonyms:
            assert synonym.name in BROKER_KEYS


def test_of_several_synonyms_the_last_carries_the_default_in_its_own_unit() -> None:
    keys = [BROKER_KEYS[f"log.retention.{unit}"] for unit in ("ms", "minutes", "hours")]

    assert [key.default for key in keys] == [None, None, 168]
    assert [key.kind for key in keys] == [ConfigType.LONG, ConfigType.INT, ConfigType.INT]


def test_only_synonyms_in_milliseconds_can_change_while_a_broker_runs() -> None:
    assert BROKER_KEYS["log.retention.ms"].update is Update.CLUSTER_WIDE
    assert BROKER_KEYS["log.retention.hours"].update is Update.READ_ONLY
    assert BROKER_KEYS["log.flush.scheduler.interval.ms"].update is Update.READ_ONLY


# -- where values come from ----------------------------------------------------------------------


def test_command_line_comes_before_environment_before_file_before_default() -> None:
    properties = b"num.partitions=2\ngroup.max.size=2\nfetch.max.bytes=2048\n"
    environment = {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_GROUP_MAX_SIZE": "3"}

    config, _ = load_broker_config(
        properties=properties, environment=environment, overrides=["num.partitions=4"]
    )

    assert (config.num_partitions, config.group_max_size) == (4, 3)
    assert (config.fetch_max_bytes, config.default_replication_factor) == (2048, 1)


def test_internal_topics_are_replicated_on_a_cluster_unless_configured_otherwise() -> None:
    def factors(config: BrokerConfig) -> tuple[int, int, int, int]:
        return (
            config.offsets_topic_replication_factor,
            config.transaction_state_log_replication_factor,
            config.transaction_state_log_min_isr,
            config.ledgerstone_erasures_topic_replication_factor,
        )

    cluster = [f"{key}={value}" for key, value in COMBINED.items()]
    assert factors(_load()) == (1, 1, 1, 1)
    assert factors(_load(*cluster)) == (3, 3, 2, 3)
    fewer = _load(*cluster, "offsets.topic.replication.factor=1", "transaction.state.log.min.isr=1")
    assert factors(fewer) == (1, 3, 1, 3)


def test_raw_keeps_what_was_given_as_text_and_nothing_else() -> None:
    config = _load("log.retention.hours=2", "num.partitions= 3 ", "num.io.threads=2")

    assert config.raw == {"log.retention.hours": "2", "num.partitions": " 3 "}
    assert LogConfig.from_topic({}, config.raw).retention_ms == 7_200_000


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B_C", "a-b.c"),
        ("KAFKA_A____B", "a-.b"),
    ],
)
def test_variables_become_keys_by_the_rule_of_the_kafka_images(variable: str, key: str) -> None:
    assert from_environment({variable: "x"}) == {key: "x"}


def test_variables_that_belong_to_start_scripts_are_no_keys() -> None:
    environment = {"KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_OPTS": "", "PATH": "/bin"}

    assert from_environment(environment) == {}


def test_unknown_keys_are_warnings_by_name() -> None:
    loaded = load_broker_config(
        properties=b"zookeeper.connect=localhost:2181\n",
        environment={"KAFKA_NUM_NETWORK_THREADS": "3"},
    )

    assert loaded.warnings == (
        "num.network.threads: unknown key, ignored",
        "zookeeper.connect: unknown key, ignored",
    )


@pytest.mark.parametrize("override", ["num.partitions", "=3", ""])
def test_an_override_without_key_and_value_is_refused(override: str) -> None:
    assert _refusal(override).key == "-c"


def test_a_broken_properties_file_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"server\.properties"):
        load_broker_config(properties=b"a=\\u12\n")


# -- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("num.partitions=0", "at least 1"),
        ("num.partitions=many", "a whole number"),
        ("auto.create.topics.enable=yes", "true or false"),
        ("log.cleaner.io.buffer.load.factor=1.5", "at most 1"),
        ("log.cleanup.policy=shred", "one of compact, delete"),
        ("log.roll.hours=x", "a whole number"),
        ("offsets.topic.replication.factor=40000", "fit a short"),
        ("log.dirs=a,b,a/", "Duplicate log directory found: a, b, a/"),
        ("log.dirs=,", "At least one log directory"),
        ("group.min.session.timeout.ms=1800001", "group.max.session.timeout.ms=1800000"),
        ("replica.fetch.wait.max.ms=30001", "replica.socket.timeout.ms=30000"),
    ],
)
def test_a_bad_value_is_refused_with_key_and_reason(override: str, reason: str) -> None:
    refusal = _refusal(override)

    assert refusal.key == override.partition("=")[0]
    assert reason in refusal.reason


def test_followers_that_wait_longer_than_they_may_lag_are_refused() -> None:
    refusal = _refusal("replica.lag.time.max.ms=400")

    assert refusal.key == "replica.fetch.wait.max.ms"
    assert "replica.lag.time.max.ms=400" in refusal.reason
    assert _load("replica.lag.time.max.ms=400", "replica.fetch.wait.max.ms=400").node_id == 1


def test_topic_defaults_that_contradict_each_other_are_refused() -> None:
    refusal = _refusal(
        "log.cleaner.min.compaction.lag.ms=20", "log.cleaner.max.compaction.lag.ms=10"
    )

    assert "max.compaction.lag.ms=10" in refusal.reason


# -- identity ------------------------------------------------------------------------------------


def test_broker_id_is_an_older_name_of_node_id() -> None:
    assert _load("broker.id=7").node_id == 7
    assert _load("broker.id=-1").node_id == 1
    assert _load("broker.id=7", "node.id=7").node_id == 7
    assert _refusal("broker.id=7", "node.id=8").key == "broker.id"


def test_log_dirs_comes_before_log_dir() -> None:
    assert _load("log.dir=a").log_dirs == ("a",)
    assert _load("log.dir=a", "log.dirs=b").log_dirs == ("b",)
    assert _load("log.dirs=/d/a, /d/b ,c").log_dirs == ("/d/a", "/d/b", "c")


# -- listeners -----------------------------------------------------------------------------------


def test_listeners_are_names_hosts_and_ports() -> None:
    config = _load("listeners=plaintext://:0, LAN://[::1]:19092")

    assert config.listeners == (Listener("PLAINTEXT", "", 0), Listener("LAN", "::1", 19092))
    assert str(config.listeners[1]) == "LAN://[::1]:19092"


def test_a_listener_on_one_address_is_advertised_as_it_is() -> None:
    loaded = load_broker_config(overrides=["listeners=PLAINTEXT://127.0.0.2:9092"])

    assert loaded.config.advertised_listeners == loaded.config.listeners
    assert loaded.warnings == ()


def test_a_listener_on_every_address_is_advertised_as_loopback_with_a_warning() -> None:
    loaded = load_broker_config(overrides=["listeners=PLAINTEXT://0.0.0.0:9092"])

    assert loaded.config.advertised_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert "advertised as 127.0.0.1" in loaded.warnings[0]


def test_advertised_listeners_are_what_clients_are_told() -> None:
    loaded = load_broker_config(
        overrides=[
            "listeners=A://127.0.0.1:9092,B://127.0.0.1:9093",
            "advertised.listeners=A://broker.example:29092",
        ]
    )

    assert loaded.config.advertised_listeners == (Listener("A", "broker.example", 29092),)
    warning = "advertised.listeners: B://127.0.0.1:9093 is not advertised to clients"
    assert loaded.warnings == (warning,)


def test_an_authorizer_needs_someone_who_gives_the_first_right() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    authorizer = f"authorizer.class.name={name}"
    open_to_all = "allow.everyone.if.no.acl.found=true"

    assert "super.users: not set" in load_broker_config(overrides=[authorizer]).warnings[0]
    assert load_broker_config(overrides=[authorizer, open_to_all]).warnings == ()


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["listeners="], "at least one"),
        (["listeners=9092"], "name://host:port"),
        (["listeners=A://host"], "port"),
        (["listeners=A://host:65536"], "port"),
        (["listeners=A://host:-1"], "port"),
        (["listeners=A://::1:9092"], "brackets"),
        (["listeners=A://:1,A://:2"], "once"),
        (["advertised.listeners=B://host:1"], "one of the listeners"),
        (["advertised.listeners=PLAINTEXT://0.0.0.0:1"], "clients can connect to"),
        (["ledgerstone.http.listener=8080x"], "port"),
    ],
)
def test_broken_listeners_are_refused(overrides: list[str], reason: str) -> None:
    assert reason in _refusal(*overrides).reason


def test_the_page_has_a_listener_of_its_own_or_none() -> None:
    assert _load().ledgerstone_http_listener is None
    assert _load("ledgerstone.http.listener=127.0.0.1:8080").ledgerstone_http_listener == Listener(
        "HTTP", "127.0.0.1", 8080
    )
