"""The machines of a simulated quorum, and which of them may stay down. Part of sim."""

from collections.abc import Callable

from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.raft.replica import NO_SNAPSHOT, Listener, Peer, ReplicaKey
from ledgerstone.raft.settings import Identity, Settings
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.quorum.checkers import Checkers
from ledgerstone.sim.quorum.machine import Machine
from ledgerstone.sim.quorum.memory_log import Entry
from ledgerstone.sim.quorum.network import Network
from ledgerstone.sim.quorum.scenario import Config
from ledgerstone.sim.quorum.sightings import Sightings
from ledgerstone.sim.quorum.state_machine import State, StateMachine
from ledgerstone.sim.world import World

_LISTENER = "CONTROLLER"


def make_fleet(
    world: World,
    network: Network,
    checkers: Checkers,
    config: Config,
    settings: Settings,
    *,
    cluster_id: str,
    make_state: Callable[[Machine], State] = lambda machine: StateMachine(),
    share: Callable[[Entry], Entry] = lambda entry: entry,
) -> list[Machine]:
    """Voters first, then spare controllers, then brokers. Node ids are their places."""
    sightings = Sightings(world)
    ids = world.dice("ids")
    keys = [ReplicaKey(n, ids.random_bytes(16)) for n in range(config.nodes)]
    voters = VoterSet(Voter(key=key, listeners=_listeners(key.id)) for key in keys[: config.voters])
    static = VoterSet(
        Voter(key=ReplicaKey(key.id), listeners=_listeners(key.id)) for key in keys[: config.voters]
    )
    servers = tuple(Peer(-2 - n, f"n{n}", 9093) for n in range(config.controllers))
    fleet: list[Machine] = []
    for number, key in enumerate(keys):
        machine = Machine(
            world,
            network,
            checkers,
            sightings,
            config,
            number=number,
            identity=Identity(
                key=key,
                cluster_id=cluster_id,
                listeners=_listeners(key.id),
                is_controller=number < config.controllers,
            ),
            settings=settings,
            static_voters=VoterSet() if config.dynamic else static,
            bootstrap=servers,
            make_state=make_state,
            share=share,
        )
        if config.dynamic and number < config.voters:
            machine.host.snapshots.finish(NO_SNAPSHOT, bootstrap_snapshot(voters, wall_ms=0))
        fleet.append(machine)
    hosts = [machine.host for machine in fleet]
    checkers.meet(hosts)
    sightings.fleet = hosts
    for machine in fleet:
        machine.meet(fleet)
    return fleet


def choose_left_out(
    dice: SeededDice, fleet: list[Machine], config: Config, wiped: list[int]
) -> list[Machine]:
    """Some stay down, as long as every voter set anyone may go by keeps its majority."""
    count = min(config.left_out, len(fleet) - 1)
    down: list[Machine] = []
    sets = [each.host.known_voters() for each in fleet]
    for _ in range(count):
        machine = dice.pick(fleet)
        if machine in down or machine.number in wiped:
            continue
        alive = [each for each in fleet if each not in down and each is not machine]
        if all(_has_majority(voters, alive) for voters in sets if len(voters)):
            down.append(machine)
    return down


def _has_majority(voters: VoterSet, alive: list[Machine]) -> bool:
    count = sum(voters.match(each.host.identity.key) is not None for each in alive)
    return count >= voters.majority


def _listeners(node_id: int) -> tuple[Listener, ...]:
    return (Listener(_LISTENER, f"n{node_id}", 9093),)
