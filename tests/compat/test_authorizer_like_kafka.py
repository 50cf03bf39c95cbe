"""Apache Kafka's own StandardAuthorizer, from its jar, answers the same questions as ours."""

import random
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.principal import Principal
from tests.kit.acl_worlds import AclWorld, acl_world

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs Java"),
]

WORLDS = 3000
QUESTIONS = 40


def _lines(world: AclWorld) -> Iterator[str]:
    yield f"N\t{';'.join(world.super_users)}\t{str(world.allows_without_acls).lower()}"
    for acl in world.acls:
        yield "\t".join(map(str, ("A", *acl)))
    for each in world.questions:
        yield "\t".join(map(str, ("Q", *each)))
        yield "\t".join(map(str, ("R", *each[:4])))


def _ours(world: AclWorld) -> Iterator[bool]:
    authorizer = Authorizer(
        super_users=world.super_users, allows_without_acls=world.allows_without_acls
    )
    authorizer.follow(added=world.acls)
    for each in world.questions:
        rights = authorizer.rights_of(Principal(*each.principal.split(":", 1)), each.host)
        yield rights.may(*each[2:])
        yield rights.may_on_some(*each[2:4])


def test_kafkas_authorizer_gives_the_same_answers() -> None:
    from golden.kafka_tools import fetch_jars

    dice = random.Random(4310)
    worlds = [acl_world(dice, QUESTIONS) for _ in range(WORLDS)]
    asked = "\n".join(line for world in worlds for line in _lines(world)) + "\n"

    command = fetch_jars().java("AclVerdict")
    done = subprocess.run(
        command, input=asked, capture_output=True, text=True, encoding="utf-8", check=False
    )

    assert done.returncode == 0, done.stderr
    theirs = [line == "1" for line in done.stdout.splitlines() if line in ("0", "1")]
    ours = [answer for world in worlds for answer in _ours(world)]
    assert len(theirs) == len(ours) == 2 * WORLDS * QUESTIONS
    assert sum(ours) > len(ours) // 10
    assert [number for number, pair in enumerate(zip(ours, theirs, strict=True))
            if pair[0] != pair[1]] == []  # fmt: skip
