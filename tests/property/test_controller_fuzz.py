"""Wild requests to a controller: each is answered once, and none costs it the lead.

A request that takes the lead away would do so on every controller it is forwarded to.
"""

import random

import pytest

from ledgerstone.protocol.api import OFFERED
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.server.dispatch import CONTROLLER_HANDLED
from tests.kit.in_process import Client, InProcess
from tests.property.wild_requests import Wild
from tests.unit.server.test_controller_listener import CONTROLLER, SETTINGS, create, join

# Requests that the controller decides about.
DECIDED = (19, 20, 33, 37, 43, 44, 45, 46, 56, 57, 62, 63, 64, 67, 70, 73)
BROKERS = (1, 2, 3)
CASES = 250


@pytest.mark.parametrize("seed", range(2))
def test_wild_requests_leave_the_controller_in_office(seed: int) -> None:
    dice = random.Random(f"controller/{seed}")
    machine = InProcess(settings=SETTINGS, advertised=[CONTROLLER])
    client = machine.connect(listener=CONTROLLER.name)
    epochs = [join(machine, client, each) for each in BROKERS]
    create(client, "events", 2)
    create(client, "other", 1)
    epoch = machine.broker.quorum.epoch
    assert set(DECIDED) <= CONTROLLER_HANDLED
    for _ in range(CASES):
        image = machine.broker.image
        topic_ids = [each.topic_id for each in image.topics.values()]
        wild = Wild(dice, [*topic_ids, bytes([101]) * 16])
        api_key = dice.choice(DECIDED)
        request = wild.request(api_key, OFFERED[api_key].last)
        _make_plausible(request, dice, epochs)
        _ask(client, request)
        machine.broker.image.check_invariants()
        assert machine.broker.quorum.epoch == epoch, request


def _make_plausible(request: ApiMessage, dice: random.Random, epochs: list[int]) -> None:
    """A registered broker with its epoch gets past the first question."""
    if hasattr(request, "broker_id") and dice.random() < 0.9:
        which = dice.randrange(len(BROKERS))
        request.broker_id = BROKERS[which]
        if hasattr(request, "broker_epoch"):
            request.broker_epoch = epochs[which]


def _ask(client: Client, request: ApiMessage) -> None:
    client.send(request)
    assert client.closed is None, (client.closed, request)
    assert len(client.answers) == 1, request
    client.answers.clear()
