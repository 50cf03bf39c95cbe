"""The image keeps to rules that hadolint names, and to some of our own; each rule can fail."""

import json
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.docs.documents import ROOT


class Instruction(NamedTuple):
    word: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    """Without comments, each with its continued lines as one."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    parts = (line.strip().partition(" ") for line in joined.splitlines() if line.strip())
    return [Instruction(word.upper(), rest.strip()) for word, _, rest in parts]


def of(found: list[Instruction], *words: str) -> Iterator[str]:
    return (each.rest for each in found if each.word in words)


def last_stage(found: list[Instruction]) -> list[Instruction]:
    begins = [number for number, each in enumerate(found) if each.word == "FROM"]
    return found[begins[-1] :]


def commands(found: list[Instruction]) -> Iterator[str]:
    for rest in of(found, "RUN"):
        yield from re.split(r"\s*(?:&&|;|\|\|)\s*", rest)


def installs(found: list[Instruction]) -> list[str]:
    return [
        each for each in commands(found) if re.search(r"\bpip (?:install|wheel|download)\b", each)
    ]


def bases(found: list[Instruction]) -> list[str]:
    """What stages begin with: variables have their defaults, names of stages are left out."""
    given = dict(rest.partition("=")[::2] for rest in of(found, "ARG"))
    stages = {rest.split()[-1] for rest in of(found, "FROM") if " AS " in rest.upper()}
    named = [re.sub(r"\$\{(\w+)\}", lambda m: given[m[1]], each) for each in of(found, "FROM")]
    return [each.split()[0] for each in named if each.split()[0] not in stages]


def is_json_list(text: str) -> bool:
    try:
        return isinstance(json.loads(text), list)
    except ValueError:
        return False


def last_user(found: list[Instruction]) -> str:
    return ([*of(last_stage(found), "USER")] or ["root"])[-1].partition(":")[0]


def is_pinned(command: str) -> bool:
    if "--no-index" in command:
        return True
    return "--require-hashes" in command and "--only-binary :all:" in command


SECRET = re.compile(r"PASSW|SECRET|TOKEN|CREDENTIAL|_KEY\b|JAAS", re.IGNORECASE)
RULES: dict[str, Callable[[list[Instruction]], bool]] = {
    "DL3000 WORKDIR is absolute": lambda f: all(e.startswith("/") for e in of(f, "WORKDIR")),
    "DL3002 the last USER is not root": lambda f: last_user(f) not in ("root", "0"),
    "DL3003 WORKDIR, not cd": lambda f: not any(e.startswith("cd ") for e in commands(f)),
    "DL3004 no sudo": lambda f: not any("sudo" in e for e in commands(f)),
    "DL3006 a base has a tag": lambda f: all(re.search(r":|@", e) for e in bases(f)),
    "DL3007 no base is the latest": lambda f: not any(":latest" in e for e in bases(f)),
    "DL3013 what pip installs is pinned by hashes": lambda f: all(map(is_pinned, installs(f))),
    "DL3020 COPY, not ADD": lambda f: not [*of(f, "ADD")],
    "DL3025 commands are lists": lambda f: all(map(is_json_list, of(f, "CMD", "ENTRYPOINT"))),
    "DL3042 pip keeps no cache": lambda f: (
        all("--no-cache-dir" in e or "--no-index" in e for e in installs(f))
        or any("PIP_NO_CACHE_DIR=1" in e for e in of(f, "ENV"))
    ),
    "DL3046 no log of a high uid": lambda f: all(
        "--no-log-init" in e for e in commands(f) if "useradd" in e
    ),
    "DL3057 there is a HEALTHCHECK": lambda f: len([*of(last_stage(f), "HEALTHCHECK")]) == 1,
    "DL4000 no MAINTAINER": lambda f: not [*of(f, "MAINTAINER")],
    "DL4001 no program fetches what has no hash": lambda f: (
        not any(re.match(r"(curl|wget|git)\b", e) for e in commands(f))
    ),
    "DL4003 one CMD": lambda f: len([*of(last_stage(f), "CMD")]) <= 1,
    "DL4004 one ENTRYPOINT": lambda f: len([*of(last_stage(f), "ENTRYPOINT")]) <= 1,
    "DL4006 no pipe hides a failure": lambda f: (
        not any(re.search(r"[^|]\|[^|]", e) for e in of(f, "RUN"))
    ),
    "ours: a user is a number": lambda f: last_user(f).isdigit(),
    "ours: nothing secret is a variable or an argument": lambda f: (
        not any(map(SECRET.search, of(f, "ENV", "ARG")))
    ),
    "ours: nothing is copied from the whole context": lambda f: (
        not any(e.split()[0] in (".", "./", "/") for e in of(f, "COPY"))
    ),
}
GOOD = """
FROM python:3.13-slim
ENV PIP_NO_CACHE_DIR=1
RUN pip install --require-hashes --only-binary :all: -r base.txt && useradd --no-log-init -u 10001 u
COPY src src
USER 10001:10001
HEALTHCHECK CMD ["true"]
ENTRYPOINT ["ledgerstone"]
CMD ["up"]
"""
# Each turns the good one into a bad one.
FAULTS = {
    "DL3000": ("COPY", "WORKDIR here\nCOPY"),
    "DL3002": ("USER 10001:10001", "USER 0:0"),
    "DL3003": ("COPY", "RUN cd /opt && true\nCOPY"),
    "DL3004": ("COPY", "RUN sudo true\nCOPY"),
    "DL3006": ("python:3.13-slim", "python"),
    "DL3007": ("python:3.13-slim", "python:latest"),
    "DL3013": ("--only-binary :all:", ""),
    "DL3020": ("COPY", "ADD"),
    "DL3025": ('CMD ["up"]', "CMD up"),
    "DL3042": ("ENV PIP_NO_CACHE_DIR=1", "ENV A=1"),
    "DL3046": ("--no-log-init", ""),
    "DL3057": ('HEALTHCHECK CMD ["true"]', ""),
    "DL4000": ("COPY", "MAINTAINER me\nCOPY"),
    "DL4001": ("COPY", "RUN curl -O https://example.com/x\nCOPY"),
    "DL4003": ("CMD [", 'CMD ["a"]\nCMD ['),
    "DL4004": ("ENTRYPOINT", 'ENTRYPOINT ["a"]\nENTRYPOINT'),
    "DL4006": ("COPY", "RUN false | true\nCOPY"),
    "ours: a user": ("10001:10001", "ledgerstone"),
    "ours: nothing secret": ("COPY", "ENV KAFKA_SSL_KEY_PASSWORD=x\nCOPY"),
    "ours: nothing is copied": ("COPY src", "COPY . /src"),
}


def broken(text: str) -> list[str]:
    found = instructions(text)
    return [name for name, holds in RULES.items() if not holds(found)]


def test_image_breaks_no_rule() -> None:
    assert broken((ROOT / "ops" / "Dockerfile").read_text()) == []


@pytest.mark.parametrize("name", FAULTS)
def test_every_rule_finds_its_fault_and_no_other_does(name: str) -> None:
    old, new = FAULTS[name]

    found = broken(GOOD.replace(old, new, 1))

    assert broken(GOOD) == []
    assert found
    assert all(each.startswith((name, "ours: a user")) for each in found)


def test_there_is_a_fault_for_every_rule() -> None:
    assert [rule for rule in RULES if not rule.startswith(tuple(FAULTS))] == []
