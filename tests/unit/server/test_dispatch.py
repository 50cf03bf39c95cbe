"""The tables of handlers: every key leads to a handler of its API, and no other key to any."""

from collections.abc import Callable
from typing import get_args, get_type_hints

import pytest

from ledgerstone.protocol.api import ApiKey
from ledgerstone.protocol.codec import api_class
from ledgerstone.server.broker import Broker
from ledgerstone.server.dispatch import (
    CONTROLLER_HANDLED,
    HANDLED,
    client_handler,
    controller_handler,
)
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.stages import Handler

TABLES = [
    (find, key)
    for find, keys in ((client_handler, HANDLED), (controller_handler, CONTROLLER_HANDLED))
    for key in sorted(keys)
]


@pytest.mark.parametrize(("find", "api_key"), TABLES)
def test_every_key_has_a_handler_that_takes_its_request(
    find: Callable[[int], Handler[Broker]], api_key: int
) -> None:
    hints = get_type_hints(find(api_key))

    taken = hints.pop("message")

    assert api_class(api_key, "Request") in (taken, *get_args(taken))
    assert hints == {"broker": Broker, "request": Request, "return": Answer}


@pytest.mark.parametrize(
    ("find", "api_key"),
    [
        (client_handler, ApiKey.VOTE),
        (controller_handler, ApiKey.PRODUCE),
        (client_handler, 99),
        (controller_handler, -1),
    ],
)
def test_key_that_is_not_served_has_none(
    find: Callable[[int], Handler[Broker]], api_key: int
) -> None:
    with pytest.raises(KeyError):
        find(api_key)
