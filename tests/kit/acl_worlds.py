"""ACLs and questions about them that meet each other often: few names, hosts and principals."""

import random
from typing import NamedTuple

from ledgerstone.security.acl import Acl, AclOperation, AclResourceType

NAMES = ("*", "a", "ab", "abc", "abd", "b", "ba", "hardcode", "hard", "kafka-cluster", "é", "éa")
# Nobody who asks is called `User:*`: Kafka's authorizer throws then.
ASKING = ("User:ann", "User:bob", "Group:ann", "User:a:b", "User:ANONYMOUS")
PRINCIPALS = (*ASKING, "User:*")
HOSTS = ("*", "10.0.0.1", "10.0.0.2")
TYPES = tuple(each for each in AclResourceType if each != AclResourceType.ANY)
OPERATIONS = tuple(each for each in AclOperation if each > AclOperation.ALL)


class Question(NamedTuple):
    principal: str
    host: str
    operation: int
    resource_type: int
    name: str


class AclWorld(NamedTuple):
    acls: list[Acl]
    super_users: list[str]
    allows_without_acls: bool
    questions: list[Question]


def acl_world(dice: random.Random, questions: int) -> AclWorld:
    types = dice.sample(TYPES, dice.randint(1, 3))
    acls = {
        Acl(
            dice.choice(types),
            dice.choice(NAMES),
            dice.choice((3, 4)),
            dice.choice(PRINCIPALS),
            dice.choice(HOSTS),
            dice.choice((AclOperation.ALL, *OPERATIONS)),
            dice.choice((2, 3, 3, 3)),
        ): None
        for _ in range(dice.choice((0, 1, 3, 10, 40)))
    }
    asked = [
        Question(
            dice.choice(ASKING),
            dice.choice(HOSTS[1:]),
            dice.choice(OPERATIONS),
            dice.choice(types),
            dice.choice(NAMES),
        )
        for _ in range(questions)
    ]
    super_users = dice.sample(PRINCIPALS, dice.choice((0, 0, 1)))
    return AclWorld(list(acls), super_users, dice.random() < 0.3, asked)
