"""Whether the time of a refused login tells if the user exists.

    python -m bench.logins [--quick]

What the broker does for the steps of a login, with a wrong password of a user that is known, and
with the name of one that is not: in turns, on one thread, each by its median.
"""

import argparse
import statistics
import time

from bench.table import Row, at_most, published, render
from ledgerstone.protocol.client_login import ClientLogin
from ledgerstone.security.exchange import LoginRefused, ServerLogin
from ledgerstone.security.plain import PlainClient
from ledgerstone.security.scram_keys import ScramMechanism
from tests.kit.in_process import InProcess
from tests.unit.server.login_kit import add_user, connect, sasl_broker, scram, shake_hands

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USERS = 20


def exchange(machine: InProcess, mechanism: str) -> ServerLogin:
    """The broker's side of a login on a new connection."""
    client = connect(machine)
    shake_hands(client, mechanism)
    sasl = machine.broker.peers.by_number[client.number].session.sasl
    assert sasl is not None
    assert sasl.exchange is not None
    return sasl.exchange


def login_of(mechanism: str, name: str) -> ClientLogin:
    wrong = "wrong password"
    return PlainClient(name, wrong) if mechanism == "PLAIN" else scram(name, wrong, mechanism)


def refused_ns(machine: InProcess, mechanism: str, name: str) -> int:
    server, client = exchange(machine, mechanism), login_of(mechanism, name)
    said: bytes | None = client.begin()
    spent = 0
    while said is not None:
        began = time.thread_time_ns()
        try:
            step = server.respond(said)
        except LoginRefused:
            return spent + time.thread_time_ns() - began
        spent += time.thread_time_ns() - began
        said = client.respond(step.data)
    raise AssertionError("a wrong password was right")


def run(*, quick: bool) -> list[Row]:
    machine = sasl_broker()
    for mechanism in ScramMechanism:
        for number in range(USERS):
            add_user(machine, f"user{number:02}", "right password", mechanism)
    rows: list[Row] = []
    for name in MECHANISMS:
        users = ("alice" if name == "PLAIN" else "user07", "nobody")
        took: dict[str, list[int]] = {user: [] for user in users}
        for turn in range(200 if quick else 1000):
            # Each is first as often as the other.
            for user in users if turn % 2 else reversed(users):
                took[user].append(refused_ns(machine, name, user))
        known, unknown = (statistics.median(took[user]) for user in users)
        rows += [
            published(f"{name}: wrong password", "us", known / 1000),
            published(f"{name}: unknown user", "us", unknown / 1000),
            at_most(f"{name}: apart", "%", abs(known - unknown) / known * 100, 5.0),
        ]
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(render(run(quick=parser.parse_args().quick)))
