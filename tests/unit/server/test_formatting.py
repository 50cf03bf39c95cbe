"""`ledgerstone format`: what is planned, what is written, what is refused, and crashes between."""

from collections.abc import Mapping

import pytest

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import ConfigError, CorruptFile, FormatRefused, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.releases import initial_features, level_of, name_of
from ledgerstone.protocol.messages.control_records import VotersRecord
from ledgerstone.protocol.messages.metadata_records import FeatureLevelRecord
from ledgerstone.raft.control_batches import control_records, voters_of
from ledgerstone.server.formatting.bootstrap_file import bootstrap_file, read_bootstrap_file
from ledgerstone.server.formatting.checking import (
    check_formatted,
    check_voters,
    read_bootstrap_records,
)
from ledgerstone.server.formatting.plan import FormatOptions, FormatPlan, plan_format
from ledgerstone.server.formatting.writing import FIRST_SNAPSHOT, METADATA_DIR, write_format
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.storage.checkpoints import read_if_exists
from ledgerstone.storage.filenames import BOOTSTRAP_CHECKPOINT, META_PROPERTIES
from ledgerstone.storage.log_dir_files import MetaProperties, read_meta_properties
from ledgerstone.uuid_text import uuid_to_text
from tests.kit.cluster_settings import BROKER, COMBINED, CONTROLLER, STATIC
from tests.kit.logs import T0

CLUSTER = "TGVkZ2Vyc3RvbmVHb2xkZQ"
OTHER_CLUSTER = "WX54HLiMSA2kPQCjbQwUGg"
FIRST_DIR, SECOND_DIR = "A1bT0I2ARi-9QjC6IfFiQA", "lrV-YEpURrKf-vj9bL4I6w"
THREE = f"1@10.0.0.1:19093:{FIRST_DIR},2@[::1]:19093:{SECOND_DIR}"
STANDALONE = FormatOptions(cluster_id=CLUSTER, is_standalone=True)
DATA = "/var/data"


def _config(settings: Mapping[str, str] = COMBINED) -> BrokerConfig:
    return BrokerConfig.from_raw({**settings, "log.dirs": DATA})


def _plan(options: FormatOptions, settings: Mapping[str, str] = COMBINED) -> FormatPlan:
    return plan_format(_config(settings), options, SeededDice(1))


def _disk(seed: int = 0) -> SimFilesystem:
    return SimFilesystem(dice=SeededDice(seed), clock=VirtualClock(start_ms=T0))


def _format(fs: SimFilesystem, plan: FormatPlan, *, ignore_formatted: bool = False) -> bool:
    clock = VirtualClock(start_ms=T0)
    return write_format(fs, clock, plan, ignore_formatted=ignore_formatted)


def _meta(fs: SimFilesystem) -> MetaProperties | None:
    return read_meta_properties(fs, join(DATA, META_PROPERTIES))


# -- the plan ------------------------------------------------------------------------------------


def test_standalone_makes_this_node_the_only_voter_where_others_reach_it() -> None:
    plan = _plan(STANDALONE)

    assert plan.voters is not None
    (voter,) = plan.voters.voters
    assert (voter.key.id, voter.key.directory_id) == (1, plan.directory_id)
    assert voter.listeners == (("CONTROLLER", "127.0.0.1", 19093),)
    assert plan.is_voter


def test_standalone_can_begin_a_new_cluster() -> None:
    plan = _plan(FormatOptions(is_standalone=True))

    assert len(plan.cluster_id) == 22
    assert plan.is_new_cluster


def test_a_voter_in_the_list_gets_the_directory_id_of_the_list() -> None:
    plan = _plan(FormatOptions(cluster_id=CLUSTER, initial_controllers=THREE))

    assert plan.voters is not None
    assert plan.voters.ids == (1, 2)
    assert plan.voters.voters[1].listeners == (("CONTROLLER", "::1", 19093),)
    assert uuid_to_text(plan.directory_id) == FIRST_DIR


def test_a_controller_outside_the_list_knows_the_voters_and_is_none() -> None:
    settings = {**CONTROLLER, "node.id": "3"}
    plan = _plan(FormatOptions(cluster_id=CLUSTER, initial_controllers=THREE), settings)

    assert plan.voters is not None
    assert not plan.is_voter


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (FormatOptions(cluster_id=CLUSTER, has_no_initial_controllers=True), COMBINED),
        (FormatOptions(cluster_id=CLUSTER), BROKER),
        (FormatOptions(cluster_id=CLUSTER), STATIC),
    ],
)
def test_nodes_that_learn_the_voters_elsewhere(
    options: FormatOptions, settings: Mapping[str, str]
) -> None:
    assert _plan(options, settings).voters is None


@pytest.mark.parametrize(
    ("options", "settings", "reason"),
    [
        (STANDALONE, {}, "process.roles is not set"),
        (FormatOptions(cluster_id=CLUSTER), COMBINED, "--standalone, --initial-controllers or"),
        (STANDALONE, STATIC, "does not go with controller.quorum.voters"),
        (STANDALONE, BROKER, "needs the role controller"),
        (
            FormatOptions(cluster_id=CLUSTER, is_standalone=True, has_no_initial_controllers=True),
            COMBINED,
            "--standalone does not go with --no-initial-controllers",
        ),
        (FormatOptions(), BROKER, "--cluster-id must be given"),
        (FormatOptions(cluster_id="mine"), BROKER, "--cluster-id: 'mine' is not a uuid"),
        (
            FormatOptions(cluster_id=CLUSTER, initial_controllers=THREE),
            BROKER,
            "must not contain node 1, which has only the role broker",
        ),
        (
            STANDALONE,
            {**COMBINED, "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"},
            "must have a port",
        ),
    ],
)
def test_a_format_that_cannot_be_is_refused(
    options: FormatOptions, settings: Mapping[str, str], reason: str
) -> None:
    with pytest.raises(FormatRefused, match=reason):
        _plan(options, settings)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "at least one"),
        ("1@host:9093", "id@host:port:directory-id"),
        (f"one@host:9093:{FIRST_DIR}", "id@host:port:directory-id"),
        (f"1@host:0:{FIRST_DIR}", "id@host:port:directory-id"),
        (f"1@host:9093:{FIRST_DIR[:-1]}B", "not a uuid"),
        (f"1@host:9093:{'A' * 22}", "not zero"),
        (f"1@a:1:{FIRST_DIR},1@b:1:{SECOND_DIR}", "each node once"),
        (f"1@a:1:{FIRST_DIR},2@b:1:{FIRST_DIR}", "directory id of its own"),
    ],
)
def test_a_broken_list_of_controllers_is_refused(text: str, reason: str) -> None:
    with pytest.raises(FormatRefused, match=reason):
        _plan(FormatOptions(cluster_id=CLUSTER, initial_controllers=text))


# -- features ------------------------------------------------------------------------------------


def test_a_release_is_a_level_of_metadata_version() -> None:
    assert (level_of("3.3"), level_of("3.9"), level_of("4.0")) == (7, 21, 25)
    assert (level_of("4.0-IV1"), level_of("4.0.2")) == (23, 25)
    assert (name_of(7), name_of(25), name_of(30)) == ("3.3-IV3", "4.0-IV3", "4.3-IV0")


def test_every_level_has_the_name_that_leads_to_it() -> None:
    for level in range(7, 31):
        assert level_of(name_of(level)) == level


@pytest.mark.parametrize("release", ["2.8", "4.0-IV4", "3.3-IV0", "5.0", "latest", ""])
def test_an_unknown_release_is_refused(release: str) -> None:
    with pytest.raises(FormatRefused, match="is unknown"):
        level_of(release)


def test_features_are_those_of_the_release() -> None:
    assert initial_features({}, release="3.9", kraft_version=1) == {"metadata.version": 21}
    assert initial_features({}, release="4.0", kraft_version=1) == {
        "metadata.version": 25,
        "transaction.version": 2,
    }


def test_a_feature_may_be_chosen_or_left_out() -> None:
    chosen = initial_features({"transaction.version": 1}, release="4.0", kraft_version=1)
    left_out = initial_features({"transaction.version": 0}, release="4.0", kraft_version=1)

    assert chosen["transaction.version"] == 1
    assert "transaction.version" not in left_out


@pytest.mark.parametrize(
    ("given", "release", "reason"),
    [
        ({"metadata.version": 21}, "3.9", "two ways"),
        ({"metadata.version": 99}, None, "metadata.version=99 is not supported"),
        ({"no.such.version": 1}, None, "feature no.such.version is not supported"),
        ({"transaction.version": 3}, None, "0 to 2 are"),
        ({"kraft.version": 0}, None, "kraft.version is 1 here"),
        ({"eligible.leader.replicas.version": 1}, "3.9", "needs metadata.version=23 or later"),
    ],
)
def test_features_that_are_not_supported_are_refused(
    given: dict[str, int], release: str | None, reason: str
) -> None:
    with pytest.raises(FormatRefused, match=reason):
        initial_features(given, release=release, kraft_version=1)


# -- bootstrap.checkpoint ------------------------------------------------------------------------

_FEATURES = [
    FeatureLevelRecord(name="metadata.version", feature_level=25),
    FeatureLevelRecord(name="transaction.version", feature_level=2),
]


def test_the_bootstrap_file_gives_its_records_back() -> None:
    assert read_bootstrap_file("b", bootstrap_file(_FEATURES, wall_ms=T0)) == _FEATURES


@pytest.mark.parametrize("size", [0, 10, 100, -1])
def test_a_bootstrap_file_that_is_cut_off_is_never_half_believed(size: int) -> None:
    data = bootstrap_file(_FEATURES, wall_ms=T0)[:size]

    with pytest.raises(CorruptFile):
        read_bootstrap_file("b", data)


def test_a_bootstrap_file_with_a_flipped_bit_is_refused() -> None:
    data = bytearray(bootstrap_file(_FEATURES, wall_ms=T0))
    data[170] ^= 1

    with pytest.raises(CorruptFile):
        read_bootstrap_file("b", bytes(data))


# -- writing -------------------------------------------------------------------------------------


def test_a_format_writes_identity_features_and_voters() -> None:
    fs, plan = _disk(), _plan(STANDALONE)

    assert _format(fs, plan)

    assert _meta(fs) == MetaProperties(
        cluster_id=CLUSTER, node_id=1, directory_id=plan.directory_id
    )
    records = read_bootstrap_records(fs, DATA)
    assert records is not None
    assert {each.name for each in records if isinstance(each, FeatureLevelRecord)} == set(
        plan.features
    )
    snapshot = read_if_exists(fs, join(join(DATA, METADATA_DIR), FIRST_SNAPSHOT))
    assert snapshot is not None
    (voters,) = [
        voters_of(found.record)
        for found in control_records(snapshot)
        if isinstance(found.record, VotersRecord)
    ]
    assert voters == plan.voters


def test_without_first_voters_there_is_no_metadata_yet() -> None:
    fs = _disk()

    _format(fs, _plan(FormatOptions(cluster_id=CLUSTER, has_no_initial_controllers=True)))

    assert not fs.exists(join(DATA, METADATA_DIR))
    assert _meta(fs) is not None


def test_a_formatted_directory_is_not_formatted_again() -> None:
    fs = _disk()
    _format(fs, _plan(STANDALONE))
    before = _meta(fs)

    with pytest.raises(StorageError, match="is formatted already, as node 1"):
        _format(fs, _plan(STANDALONE))

    assert not _format(fs, _plan(STANDALONE), ignore_formatted=True)
    assert _meta(fs) == before


@pytest.mark.parametrize(
    ("options", "settings", "reason"),
    [
        (
            FormatOptions(cluster_id=OTHER_CLUSTER, is_standalone=True),
            COMBINED,
            f"belongs to cluster {CLUSTER}",
        ),
        (STANDALONE, {**COMBINED, "node.id": "2"}, "belongs to node 1, not 2"),
    ],
)
def test_a_directory_of_another_node_or_cluster_is_refused_in_any_case(
    options: FormatOptions, settings: Mapping[str, str], reason: str
) -> None:
    fs = _disk()
    _format(fs, _plan(STANDALONE))

    with pytest.raises(StorageError, match=reason):
        _format(fs, _plan(options, settings), ignore_formatted=True)


@pytest.mark.parametrize(
    "name", ["photo.jpg", "topic-0", f"{METADATA_DIR}/00000000000000000000.log"]
)
def test_a_directory_that_holds_anything_else_is_refused(name: str) -> None:
    fs = _disk()
    fs.make_dir("/var")
    fs.make_dir(DATA)
    fs.make_dir(join(DATA, METADATA_DIR))
    fs.open(join(DATA, name), create=True).close()

    with pytest.raises(StorageError, match="not empty either"):
        _format(fs, _plan(STANDALONE))

    assert _meta(fs) is None


def test_a_new_file_system_is_empty() -> None:
    fs = _disk()
    fs.make_dir("/var")
    fs.make_dir(DATA)
    fs.make_dir(join(DATA, "lost+found"))

    assert _format(fs, _plan(STANDALONE))


@pytest.mark.parametrize("way", [None, "none", "all", "random"])
def test_a_crash_at_any_operation_leaves_nothing_or_everything(way: PowerLoss | None) -> None:
    """`meta.properties` is there only if all the rest is, and the format can be run again."""
    rehearsal = _disk()
    _format(rehearsal, _plan(STANDALONE))
    interrupted = 0
    for operation in range(1, rehearsal.operation_count + 1):
        fs = _disk(operation)
        fs.crash_at(operation, torn=True)
        with pytest.raises(SimulatedCrash):
            _format(fs, _plan(STANDALONE))
        if way is None:
            fs.kill()
        else:
            fs.power_loss(way)
        fs.clear_faults()
        if _meta(fs) is None:
            interrupted += 1
            # Another try may choose otherwise: nothing of this one may come through.
            plan = _plan(FormatOptions(cluster_id=OTHER_CLUSTER, initial_controllers=THREE))
            assert _format(fs, plan)
        else:
            plan = _plan(STANDALONE)
        meta = _meta(fs)
        assert meta is not None
        assert meta.directory_id == plan.directory_id
        assert read_bootstrap_records(fs, DATA) is not None
        snapshot = read_if_exists(fs, join(join(DATA, METADATA_DIR), FIRST_SNAPSHOT))
        assert snapshot is not None
        found = [each.record for each in control_records(snapshot)]
        assert [voters_of(each) for each in found if isinstance(each, VotersRecord)] == [
            plan.voters
        ]
    assert interrupted > 5


# -- starting ------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [COMBINED, CONTROLLER, BROKER, STATIC])
def test_a_node_of_a_quorum_does_not_start_on_a_directory_that_is_not_formatted(
    settings: Mapping[str, str],
) -> None:
    fs = _disk()

    with pytest.raises(ConfigError, match="Run `ledgerstone format` first"):
        check_formatted(fs, _config(settings))

    assert not fs.exists(DATA)


def test_a_formatted_node_starts() -> None:
    fs = _disk()
    _format(fs, _plan(STANDALONE))

    check_formatted(fs, _config())


def test_a_single_node_needs_no_format() -> None:
    check_formatted(_disk(), _config({}))


def test_a_single_node_takes_over_what_was_formatted_for_it_alone() -> None:
    fs = _disk()
    _format(fs, _plan(STANDALONE))

    check_formatted(fs, _config({"node.id": "1"}))


def test_a_single_node_does_not_take_a_directory_of_a_quorum() -> None:
    """It would elect itself, and the others would go on without it: two clusters of one id."""
    fs = _disk()
    _format(fs, _plan(FormatOptions(cluster_id=CLUSTER, initial_controllers=THREE)))

    with pytest.raises(ConfigError, match="belongs to a quorum with node 2") as raised:
        check_formatted(fs, _config({"node.id": "1"}))

    assert raised.value.key == "process.roles"


def test_a_bootstrap_file_names_no_records_where_there_is_none() -> None:
    assert read_bootstrap_records(_disk(), DATA) is None


def test_the_bootstrap_file_lies_where_kafka_looks_for_it() -> None:
    fs = _disk()
    _format(fs, _plan(STANDALONE))

    assert sorted(fs.list_dir(DATA)) == sorted(
        [BOOTSTRAP_CHECKPOINT, META_PROPERTIES, METADATA_DIR]
    )


def test_a_single_node_does_not_decide_without_the_voters_in_its_log() -> None:
    check_voters(_config({"node.id": "1"}), (1,))
    check_voters(_config(COMBINED), (1, 2, 3))

    with pytest.raises(ConfigError, match="belongs to a quorum with nodes 2, 3"):
        check_voters(_config({"node.id": "1"}), (1, 2, 3))


def test_features_that_no_broker_supports_are_named_at_a_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fs = _disk()
    features = {"group.version": 1}
    _format(fs, _plan(FormatOptions(is_standalone=True, features=features)))

    check_formatted(fs, _config(COMBINED))
    assert "group.version=1" in caplog.text
    caplog.clear()
    check_formatted(fs, _config(CONTROLLER))
    assert caplog.text == ""
