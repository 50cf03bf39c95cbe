"""Whose secrets a replica of the journal takes: those that the committed journal names, or while it
names none, what the leader of its present epoch offers. Others are set aside, never lost."""

from typing import Any

import pytest

from ledgerstone.erasure.sealing import public_key_of, seal_for
from ledgerstone.erasure.secrets_file import Secrets, load, secrets_text
from ledgerstone.errors import InvalidRequest, LogStorageError
from ledgerstone.fs import parent_of
from ledgerstone.protocol.messages.erasure_work import ErasureWorkRequest
from ledgerstone.server.erasing.host import check_leads
from ledgerstone.types import TopicPartition
from tests.kit.roles import change_partition
from tests.unit.server.erasing_kit import KEY, ErasingMachine, machine_with

LEADER, FOLLOWER = 7, 8
JOURNAL = TopicPartition("__erasures", 0)
MADE = Secrets(salt=b"s" * 32, signing_seed=b"k" * 32, created_ms=1)
OTHERS = Secrets(salt=b"t" * 32, signing_seed=b"l" * 32, created_ms=2)


@pytest.fixture
def named() -> ErasingMachine:
    """Its journal names the secrets that are here."""
    machine = machine_with(partitions=1)
    machine.put(0, (KEY, b"Ulm"))
    machine.held_scans = []
    machine.erase(after_ms=1000)
    return machine


@pytest.fixture
def unnamed() -> ErasingMachine:
    """Its journal is empty: a leader has made the topic, and was lost."""
    machine = machine_with(partitions=1)
    machine.broker.erasing.journal.topic.ensure_partition()
    return machine


def follow(machine: ErasingMachine) -> None:
    replicas = [1, LEADER, FOLLOWER]
    change_partition(machine, JOURNAL, leader=LEADER, replicas=replicas, isr=replicas)


def own(machine: ErasingMachine) -> Secrets | None:
    return load(machine.fs, machine.broker.erasing.keys_path)


def put(machine: ErasingMachine, secrets: Secrets) -> None:
    path = machine.broker.erasing.keys_path
    if machine.fs.exists(path):
        machine.fs.unlink(path)
    file = machine.fs.create_private(path)
    file.pwrite(secrets_text(secrets), 0)
    file.close()


def give(machine: ErasingMachine, secrets: Secrets, *, is_from_leader: bool) -> None:
    sharing = machine.broker.erasing.sharing
    box = bytes.fromhex(sharing.status()["box"])
    dice, context = machine.broker.dice, sharing._context(1)
    sealed = seal_for(box, secrets_text(secrets), context=context, dice=dice)
    sharing.take({"sealed": sealed.hex()}, is_from_leader=is_from_leader)


def aside(machine: ErasingMachine) -> list[Secrets | None]:
    directory = parent_of(machine.broker.erasing.keys_path)
    names = sorted(each for each in machine.fs.list_dir(directory) if ".aside-" in each)
    return [load(machine.fs, f"{directory}/{each}") for each in names]


def test_leader_of_an_empty_journal_decides_and_others_are_set_aside(
    unnamed: ErasingMachine,
) -> None:
    follow(unnamed)
    put(unnamed, MADE)

    give(unnamed, OTHERS, is_from_leader=True)
    give(unnamed, MADE, is_from_leader=True)
    give(unnamed, OTHERS, is_from_leader=True)

    assert own(unnamed) == OTHERS
    assert {MADE, OTHERS} == {*aside(unnamed)}
    assert len(aside(unnamed)) == 2


def test_broker_that_does_not_lead_gives_a_follower_nothing(unnamed: ErasingMachine) -> None:
    follow(unnamed)

    with pytest.raises(InvalidRequest, match="only the leader of the journal"):
        give(unnamed, OTHERS, is_from_leader=False)

    assert own(unnamed) is None


def test_leader_without_secrets_takes_what_a_follower_has_and_no_second_ones(
    unnamed: ErasingMachine,
) -> None:
    give(unnamed, OTHERS, is_from_leader=False)
    with pytest.raises(InvalidRequest, match="only the leader of the journal"):
        give(unnamed, MADE, is_from_leader=False)

    assert own(unnamed) == OTHERS
    assert aside(unnamed) == []


def test_secrets_that_the_committed_journal_names_are_not_given_up(named: ErasingMachine) -> None:
    before = own(named)
    follow(named)

    with pytest.raises(InvalidRequest, match="the journal names the secrets"):
        give(named, OTHERS, is_from_leader=True)

    assert own(named) == before


def test_leader_with_other_secrets_takes_the_named_ones_from_a_follower_and_goes_on(
    named: ErasingMachine,
) -> None:
    """It was away while another leader made them, and leads before it was given them."""
    right = own(named)
    assert right is not None
    put(named, MADE)
    named.kill()
    assert "not the one the erasures were made with" in str(named.broker.erasing.trouble)
    wanted = named.broker.erasing.sharing.status()["wanted"]

    with pytest.raises(InvalidRequest, match="the journal names the secrets"):
        give(named, OTHERS, is_from_leader=False)
    give(named, right, is_from_leader=False)

    assert wanted == public_key_of(right.signing_seed).hex()
    assert (own(named), aside(named)) == (right, [MADE])
    assert named.broker.erasing.trouble is None
    assert len(named.broker.erasing.journal.unfinished) == 1


def test_nothing_is_signed_with_secrets_that_the_journal_does_not_name(
    named: ErasingMachine,
) -> None:
    named.broker.erasing.secrets = OTHERS

    with pytest.raises(LogStorageError, match="the journal names the secrets"):
        named.broker.erasing.named_secrets()


@pytest.mark.parametrize(("broker_id", "back"), [(FOLLOWER, 0), (LEADER, 1), (LEADER, -1)])
def test_only_the_leader_of_the_epoch_that_is_known_here_counts_as_one(
    unnamed: ErasingMachine, broker_id: int, back: int
) -> None:
    """A leader that was replaced is refused, and so is one that is not heard of here yet: until
    then its predecessor's secrets might be taken after its own."""
    follow(unnamed)
    state: Any = unnamed.broker.image.partition(*JOURNAL)
    asked = ErasureWorkRequest(broker_id=broker_id, journal_epoch=state.leader_epoch - back)

    assert check_leads(unnamed.broker.erasing, asked) is not None
