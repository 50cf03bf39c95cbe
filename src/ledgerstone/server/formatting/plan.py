"""What a format will write, decided before anything is touched. Pure.

A node's identity is its cluster id, its node id and its directory id. Which voters there are at
first is said in one of three ways, none of which goes with `controller.quorum.voters`:
standalone (this node alone), a list (the same on every node), or none (brokers, and controllers
that are added later).
"""

from collections.abc import Mapping

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import FormatRefused
from ledgerstone.metadata.features import METADATA_VERSION_FEATURE
from ledgerstone.metadata.releases import feature_records, initial_features
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import UserScramCredentialRecord
from ledgerstone.raft.replica import Listener, ReplicaKey
from ledgerstone.raft.voters import DYNAMIC_VERSION, STATIC_VERSION, Voter, VoterSet
from ledgerstone.server.formatting.first_users import parse_first_users
from ledgerstone.server.formatting.first_voters import OPTION, parse_first_voters
from ledgerstone.uuid_text import random_uuid, uuid_from_text, uuid_to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatOptions:
    """What the operator asked for on the command line."""

    cluster_id: str | None = None
    is_standalone: bool = False
    initial_controllers: str | None = None
    has_no_initial_controllers: bool = False
    release: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    # Of `--add-scram`, as they were given: they hold passwords.
    scram_users: tuple[str, ...] = field(default=(), repr=False)

    @property
    def ways(self) -> list[str]:
        """Which of the three options about voters were given."""
        given = {
            "--standalone": self.is_standalone,
            OPTION: self.initial_controllers is not None,
            "--no-initial-controllers": self.has_no_initial_controllers,
        }
        return [name for name, is_given in given.items() if is_given]


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatPlan:
    # The directory of the metadata log.
    path: str
    cluster_id: str
    # Whether the cluster id was made here, so that no directory can have it yet.
    is_new_cluster: bool
    node_id: int
    directory_id: bytes
    features: Mapping[str, int]
    # None: the voters are in controller.quorum.voters, or only in the metadata of others.
    voters: VoterSet | None
    # The other log directories, each with the id that it gets.
    others: tuple[tuple[str, bytes], ...] = ()
    scram_users: tuple[UserScramCredentialRecord, ...] = ()

    @property
    def first_records(self) -> list[MetadataRecord]:
        """What the first leader of the cluster writes."""
        return [*feature_records(self.features), *self.scram_users]

    @property
    def is_voter(self) -> bool:
        key = ReplicaKey(self.node_id, self.directory_id)
        return self.voters is not None and self.voters.match(key) is not None


def plan_format(config: BrokerConfig, options: FormatOptions, dice: Dice) -> FormatPlan:
    """FormatRefused names the setting or option that stands in the way."""
    cluster = config.cluster
    if not cluster.is_configured:
        raise FormatRefused(
            "process.roles is not set: a single node formats its directory at its first start"
        )
    _check_ways(config, options)
    voters, directory_id = _voters(config, options, dice)
    features = initial_features(
        options.features,
        release=options.release,
        kraft_version=STATIC_VERSION if cluster.voters else DYNAMIC_VERSION,
    )
    level = features[METADATA_VERSION_FEATURE]
    return FormatPlan(
        path=cluster.metadata_log_dir,
        cluster_id=_cluster_id(options, dice),
        is_new_cluster=options.cluster_id is None,
        node_id=config.node_id,
        directory_id=directory_id,
        features=features,
        scram_users=parse_first_users(options.scram_users, level, dice),
        voters=voters,
        others=tuple(
            (path, random_uuid(dice))
            for path in config.log_dirs
            if path.rstrip("/") != cluster.metadata_log_dir.rstrip("/")
        ),
    )


def _check_ways(config: BrokerConfig, options: FormatOptions) -> None:
    cluster, ways = config.cluster, options.ways
    if len(ways) > 1:
        raise FormatRefused(f"{ways[0]} does not go with {ways[1]}")
    if ways and cluster.voters:
        raise FormatRefused(
            f"{ways[0]} does not go with controller.quorum.voters: remove that setting, and name "
            "the controllers in controller.quorum.bootstrap.servers"
        )
    if not ways and not cluster.voters and cluster.is_controller:
        raise FormatRefused(
            "controller.quorum.voters is not set: name the first voters with --standalone, "
            f"{OPTION} or --no-initial-controllers"
        )
    if options.is_standalone and not cluster.is_controller:
        raise FormatRefused("--standalone needs the role controller in process.roles")


def _cluster_id(options: FormatOptions, dice: Dice) -> str:
    given = options.cluster_id
    if given is None:
        if not options.is_standalone:
            raise FormatRefused(
                "--cluster-id must be given, the same for every node; --random-uuid makes one"
            )
        return uuid_to_text(random_uuid(dice))
    try:
        uuid_from_text(given)
    except ValueError as error:
        raise FormatRefused(f"--cluster-id: {error}") from error
    return given


def _voters(
    config: BrokerConfig, options: FormatOptions, dice: Dice
) -> tuple[VoterSet | None, bytes]:
    """The first voters, and the directory id of this node."""
    cluster = config.cluster
    directory_id = random_uuid(dice)
    if options.is_standalone:
        own = cluster.advertised_controller_listeners[0]
        if not own.port:
            raise FormatRefused(f"listeners: {own} must have a port that other nodes can know")
        key = ReplicaKey(config.node_id, directory_id)
        listener = Listener(own.name, own.host, own.port)
        return VoterSet([Voter(key=key, listeners=(listener,))]), directory_id
    if options.initial_controllers is None:
        return None, directory_id
    name = cluster.controller_listener_names[0]
    voters = parse_first_voters(options.initial_controllers, name)
    me = voters.get(config.node_id)
    if me is None:
        return voters, directory_id
    if not cluster.is_controller:
        raise FormatRefused(
            f"{OPTION} must not contain node {config.node_id}, which has only the role broker"
        )
    return voters, me.key.directory_id
