"""Every case of `authorization_cases` asked by every principal, of Apache Kafka and of us.

Of an answer only what a right decides about is compared: codes, names, ids, operations and how many
there are of each, in any order. `PYTHONPATH=tools python -m tests.compat.authorization_matrix` asks
a real Kafka and writes the record that the default suite compares with.
"""

import json
import struct
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from golden.kafka_broker import KafkaBroker
from golden.kafka_tools import fetch_jars
from ledgerstone.config.broker import Listener
from ledgerstone.protocol.framing import frame_prefix
from ledgerstone.protocol.headers import (
    RequestHeader,
    encode_request_header,
    response_body_position,
)
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.security.jaas import PLAIN_MODULE
from ledgerstone.security.principal import Principal
from tests.compat.authorization_cases import (
    ADMIN,
    PRINCIPALS,
    acl_cases,
    broker_cases,
    controller_cases,
)
from tests.compat.both_brokers import CLIENT_ID, Case, Side, outcome
from tests.kit.broker import FAST_GROUPS, BrokerProcess, wait_until
from tests.kit.in_process import Client, InProcess

FILE: Final = Path(__file__).parents[1] / "golden" / "kafka_authorization.json"
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
}
_SHOWN: Final = (
    "name", "topic", "topic_id", "topic_name", "group_id", "transactional_id", "key", "size",
    "resource_name", "user", "cluster_id", "principal", "host", "operation", "permission_type",
    "pattern_type",
)  # fmt: skip
_LISTENER: Final = "SASL_PLAINTEXT"
Codes = list[str]
Answers = dict[str, dict[str, Codes]]


# -- two sides ---------------------------------------------------------------------------------


@dataclass(slots=True)
class LoggedIn(Side):
    """A connection to Kafka that has logged in with PLAIN; the password is the name."""

    user: str = ADMIN

    def _exchange(self, frame: bytes) -> bytes | None:
        if self._connection is None:
            self._correlation_id += 1
            wanted, self._correlation_id = self._correlation_id, 0
            opened = Side._exchange(self, struct.pack(">hhih", 17, 1, 0, -1) + b"\0\5PLAIN")
            assert opened is not None
            assert opened[4:6] == b"\0\0", opened
            token = f"\0{self.user}\0{self.user}".encode()
            login = struct.pack(">hhih", 36, 1, 0, -1) + struct.pack(">i", len(token)) + token
            answer = Side._exchange(self, login)
            assert answer is not None
            assert answer[4:6] == b"\0\0", answer
            self._correlation_id = wanted - 1
            # The frame has the number that was current before.
            self._correlation_id = struct.unpack(">i", frame[4:8])[0]
        return Side._exchange(self, frame)


class _FrameClient(Client):
    """Keeps answers as bytes."""

    def _decoded(self, frame: memoryview) -> tuple[int, ApiMessage]:
        self.machine.frames.append(bytes(frame))  # type: ignore[attr-defined]
        return 0, ApiMessage()


class _Machine(InProcess):
    frames: list[bytes]


@dataclass(slots=True)
class InProcessSide(Side):
    """The same for a broker in this process: its session is told who it is."""

    machine: _Machine | None = None
    user: str = ADMIN
    listener: str = "PLAINTEXT"
    client: Client | None = None

    def exchange(self, api_key: int, version: int, body: bytes) -> bytes | None:
        machine = self.machine
        assert machine is not None
        if self.client is None or self.client.closed is not None:
            self.client = _FrameClient(machine, machine._take_number())
            machine._connect(self.client, "127.0.0.1", self.listener)
            session = machine.broker.peers.by_number[self.client.number].session
            session.principal = Principal("User", self.user)
        header = encode_request_header(RequestHeader(api_key, version, 1, CLIENT_ID))
        machine.advance(10)
        machine.frames.clear()
        self.client.feed(frame_prefix(len(header) + len(body)) + header + body)
        for _ in range(200):
            if machine.frames or self.client.closed is not None:
                break
            machine.advance(50)
        if not machine.frames:
            assert self.client.closed is not None, "no answer"
            return None
        (answer,) = machine.frames
        return answer[response_body_position(api_key, version, answer) :]


# -- what both hold ----------------------------------------------------------------------------


def set_up(admin: Side) -> None:
    names = ["tea", *(f"{start}-{name}" for name in PRINCIPALS for start in ("tea", "tea-id"))]
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    answer: object = admin.ask(
        Case("topics", "CreateTopics", {"topics": topics, "timeout_ms": 30_000}), 7
    )
    for each in answer.topics:  # type: ignore[attr-defined]
        assert each.error_code == 0, each
        admin.topic_ids[bytes(each.topic_id)] = each.name
    create_acls(admin)
    _warm_up(admin)


def create_acls(admin: Side) -> None:
    creations = [
        {
            "resource_type": acl.resource_type,
            "resource_name": acl.resource_name,
            "resource_pattern_type": acl.pattern_type,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission_type": acl.permission_type,
        }
        for acls in PRINCIPALS.values()
        for acl in acls
    ]
    answer: object = admin.ask(Case("acls", "CreateAcls", {"creations": creations}), 3)
    assert {each.error_code for each in answer.results} == {0}  # type: ignore[attr-defined]


def _warm_up(admin: Side) -> None:
    """Coordinators are there, and producer ids; two groups have offsets of `tea`."""

    def is_done(case: Case, version: int) -> Callable[[], bool]:
        def done() -> bool:
            codes = condensed(outcome(admin, case, version))
            return not any("error_code=" in each and "error_code=0 " not in each for each in codes)

        return done

    partition = [{"partition_index": 0, "committed_offset": 0}]
    commits = [
        Case("commit", "OffsetCommit", {
            "group_id": group, "generation_id_or_member_epoch": -1,
            "topics": [{"name": "tea", "partitions": partition}]})
        for group in ("g", "h")
    ]  # fmt: skip
    found = [
        Case("group", "FindCoordinator", {"key_type": kind, "coordinator_keys": ["a"]})
        for kind in (0, 1)
    ]
    draw = Case("id", "InitProducerId", {"transactional_id": None, "transaction_timeout_ms": 10})
    known = Case("txn", "DescribeTransactions", {"transactional_ids": []})
    for case, version in [*((each, 4) for each in found), *((each, 8) for each in commits),
                          (draw, 4), (known, 0)]:  # fmt: skip
        wait_until(is_done(case, version), case.name, 60.0)
    listed = Case("list", "ListTransactions", {})
    wait_until(is_done(listed, 0), "transactions are loaded", 60.0)


# -- asking ------------------------------------------------------------------------------------


def condensed(answer: object) -> Codes:
    """Codes, names and counts, each with how often it is there."""
    if isinstance(answer, str):
        return [answer]
    assert isinstance(answer, dict)
    found: Counter[str] = Counter()
    for path, value in answer.items():
        steps = [step for step in path.split(".") if not step.isdigit()]
        last = steps[-1]
        if last.endswith(("error_code", "operations")) or last in _SHOWN:
            found[f"{'.'.join(steps)}={value}"] += 1
    return [f"{text} x{count}" for text, count in sorted(found.items())]


def _versions(case: Case) -> Sequence[int]:
    versions = case.versions
    return sorted({versions[0], versions[-1]})


Make = Callable[[str], Side]


def ask_about_acls(admin: Side) -> Answers:
    return {
        f"{case.name} v{version}": {ADMIN: condensed(outcome(admin, case, version))}
        for case in acl_cases()
        for version in _versions(case)[-1:]
    }


def ask_all(
    make: Make,
    cases_of: Callable[[str], list[Case]],
    topic_ids: dict[bytes, str],
    names: Iterable[str] = PRINCIPALS,
) -> Answers:
    answers: Answers = {}
    sides = {name: make(name) for name in names}
    for side in sides.values():
        side.topic_ids = topic_ids
    for number, case in enumerate(cases_of("")):
        for version in _versions(case):
            of_case = answers[f"{case.name} v{version}"] = {}
            for name, side in sides.items():
                asked = cases_of(name)[number]
                of_case[name] = [
                    each.replace(f"-{name} x", "-NAME x")
                    for each in condensed(outcome(side, asked, version))
                ]
    for side in sides.values():
        side.close()
    return answers


# -- Kafka and ours ----------------------------------------------------------------------------


def _jaas() -> str:
    """Passwords are names."""
    users = " ".join(f'user_{name}="{name}"' for name in (ADMIN, *PRINCIPALS))
    return f'{PLAIN_MODULE} required username="{ADMIN}" password="{ADMIN}" {users};'


@contextmanager
def kafka(work: Path) -> Iterator[KafkaBroker]:
    jaas = _jaas()
    broker = KafkaBroker(jars=fetch_jars(), work=work)
    broker.settings = {
        "listeners": f"{_LISTENER}://127.0.0.1:{broker.port},"
        f"CONTROLLER://127.0.0.1:{broker.controller_port}",
        "listener.security.protocol.map": f"{_LISTENER}:{_LISTENER},CONTROLLER:{_LISTENER}",
        "inter.broker.listener.name": _LISTENER,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "group.initial.rebalance.delay.ms": "0",
        "group.coordinator.rebalance.protocols": "classic",
        "log.segment.delete.delay.ms": "60000",
        **AUTHORIZER,
    }
    broker.format()
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def kafka_answers(work: Path) -> dict[str, Answers]:
    with kafka(work) as broker:
        admin = LoggedIn("kafka", broker.bootstrap)
        set_up(admin)
        address = f"127.0.0.1:{broker.controller_port}"
        answers = {
            "controller": ask_all(
                lambda name: LoggedIn("kafka", address, user=name),
                controller_cases,
                admin.topic_ids,
            ),
            "broker": ask_all(
                lambda name: LoggedIn("kafka", broker.bootstrap, user=name),
                broker_cases,
                admin.topic_ids,
            ),
            "acls": ask_about_acls(admin),
        }
        admin.close()
    return answers


def our_answers() -> dict[str, Answers]:
    settings = {**AUTHORIZER, "auto.create.topics.enable": "false"}
    machine = _Machine(settings=settings)
    machine.frames = []
    admin = InProcessSide("ours", "", machine=machine)
    set_up(admin)
    return {
        "controller": our_controller_answers(),
        "broker": ask_all(
            lambda name: InProcessSide("ours", "", machine=machine, user=name),
            broker_cases,
            admin.topic_ids,
        ),
        "acls": ask_about_acls(admin),
    }


def our_answers_to_logins(work: Path, names: Sequence[str]) -> Answers:
    """Of a process, to connections that have logged in as Kafka's were: of some principals, as it
    takes longer."""
    settings = {
        **FAST_GROUPS,
        **AUTHORIZER,
        "listeners": f"{_LISTENER}://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": _jaas(),
        "auto.create.topics.enable": "false",
    }
    with BrokerProcess(work, settings) as broker:
        admin = LoggedIn("ours", broker.bootstrap)
        set_up(admin)

        def make(name: str) -> Side:
            return LoggedIn("ours", broker.bootstrap, user=name)

        answers = ask_all(make, broker_cases, admin.topic_ids, names)
        admin.close()
        broker.stop()
    return answers


def our_controller_answers() -> Answers:
    settings = {
        "node.id": "1",
        "process.roles": "controller",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        **AUTHORIZER,
    }
    machine = _Machine(settings=settings, advertised=[Listener("CONTROLLER", "host", 9093)])
    machine.frames = []

    def make(name: str) -> Side:
        return InProcessSide("ours", "", machine=machine, user=name, listener="CONTROLLER")

    create_acls(make(ADMIN))
    return ask_all(make, controller_cases, {})


def read() -> dict[str, Answers]:
    recorded = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        where: {
            case: {name: each["answer"] for each in answers for name in each["principals"]}
            for case, answers in cases.items()
        }
        for where, cases in recorded.items()
    }


def write(answers: dict[str, Answers]) -> None:
    """Principals that got the same answer stand together; one line a case."""
    wheres = []
    for where, cases in answers.items():
        lines = []
        for case, by_name in cases.items():
            groups: dict[tuple[str, ...], list[str]] = {}
            for name, codes in by_name.items():
                groups.setdefault(tuple(codes), []).append(name)
            found = [
                {"principals": names, "answer": list(codes)} for codes, names in groups.items()
            ]
            lines.append(f"{json.dumps(case)}: {json.dumps(found)}")
        wheres.append(f"{json.dumps(where)}: {{\n{(',' + chr(10)).join(lines)}\n}}")
    FILE.write_text(f"{{{','.join(wheres)}}}\n", encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        write(kafka_answers(Path(directory) / "kafka"))


if __name__ == "__main__":
    main()
