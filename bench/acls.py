"""What a check of rights costs, with 10,000 ACLs and with none.

    python -m bench.acls [--quick]

CPU time of one question: of a session that has asked before, of one that has not, and by looking at
every ACL, as the oracle of the tests does.
"""

import argparse
import random
import time
from collections.abc import Callable

from bench.table import Row, at_most, published, render
from ledgerstone.security.acl import Acl, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.principal import Principal
from tests.oracles.plain_acls import PlainAuthorizer

ACLS = 10_000
USERS = 200
TOPICS = 5_000
TOPIC, READ = AclResourceType.TOPIC, AclOperation.READ


def _acls(dice: random.Random) -> list[Acl]:
    made: dict[Acl, None] = {}
    while len(made) < ACLS:
        user, name = f"User:u{dice.randrange(USERS)}", f"topic-{dice.randrange(TOPICS)}"
        operation = dice.choice((2, 3, 4, 8))
        acl = Acl(TOPIC, name, dice.choice((3, 4)), user, "*", operation, dice.choice((2, 3, 3)))
        made[acl] = None
    return list(made)


def _best_us(count: int, rounds: int, call: Callable[[int], object]) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        for number in range(count):
            call(number)
        best = min(best, (time.process_time() - start) / count * 1e6)
    return best


def run(*, quick: bool) -> list[Row]:
    dice = random.Random(1)
    acls = _acls(dice)
    authorizer = Authorizer()
    start = time.process_time()
    authorizer.follow(added=acls)
    load_ms = (time.process_time() - start) * 1e3
    rights = [
        authorizer.rights_of(Principal("User", f"u{each}"), "10.0.0.1") for each in range(USERS)
    ]
    names = [f"topic-{dice.randrange(TOPICS)}" for _ in range(20_000)]
    plain = PlainAuthorizer(acls, allows_without_acls=False)
    count, rounds = (2_000, 1) if quick else (20_000, 5)

    def new(number: int) -> object:
        return rights[number % USERS]._find(TOPIC, names[number])

    def again(number: int) -> object:
        return rights[0].may(READ, TOPIC, "topic-1")

    def looking_at_all(number: int) -> object:
        return plain.may(f"User:u{number % USERS}", "10.0.0.1", READ, TOPIC, names[number])

    return [
        at_most("asked before", "us", _best_us(count, rounds, again), 0.5),
        at_most("a new name", "us", _best_us(count, rounds, new), 2.0),
        published("a new name, looking at every ACL", "us", _best_us(20, 1, looking_at_all)),
        published("loading 10,000 ACLs", "ms", load_ms),
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    print(render(run(quick=parser.parse_args().quick)))
