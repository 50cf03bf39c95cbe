"""The commands of docs/cluster.md do what it says, in its order.

Machines are addresses of the loopback network: 10.0.0.N of the document becomes 127.0.1.N. What
`systemctl` would start and stop is started and stopped here.
"""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.cli.options import parse_bootstrap
from ledgerstone.client.blocking import Client
from ledgerstone.client.producer import NewRecord, Producer
from tests.docs.documents import ROOT
from tests.kit.broker import broker_environment
from tests.kit.cluster_up import ClusterUp

pytestmark = pytest.mark.slow

DOCUMENT = (ROOT / "docs/cluster.md").read_text(encoding="utf-8")
ONE_MACHINE, MACHINES = DOCUMENT.split("## On machines of your own")
ORDERS = 200


def test_commands_for_one_machine(tmp_path: Path) -> None:
    commands = re.findall(r"^    (ledgerstone cluster .*)$", ONE_MACHINE, re.MULTILINE)
    first, *others = commands
    assert first == "ledgerstone cluster up --nodes 3 --data ./cluster"
    names = [each.split()[2] for each in others]
    assert names == ["kill", "status", "add", "drain", "remove"]

    with ClusterUp(tmp_path) as cluster:
        for command in others:
            _, _, name, *words = command.split()
            at = words.index("--data")
            cluster.command(name, *words[:at], *words[at + 2 :])
            if name == "kill":
                cluster.command("status", "--wait", "60")
        assert list(cluster.read()["nodes"]) == ["1", "2", "3"]


class Machines:
    """Types the blocks of the document. Each machine has its file and its process."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.variables: dict[str, str] = {}

    def local(self, text: str) -> str:
        """The document's addresses and paths, as they are here."""
        text = re.sub(r"\b10\.0\.0\.(\d)", r"127.0.1.\1", text)
        text = text.replace("/var/lib/ledgerstone", str(self.work / "lib"))
        return text.replace("/etc/ledgerstone", str(self.work))

    def write_properties(self) -> None:
        (sample,) = re.findall(r"```properties\n(.*?)```", MACHINES, re.DOTALL)
        for number in "1234":
            own = re.sub(
                r"(?<=//)10\.0\.0\.1|(?<=listener=)10\.0\.0\.1", f"10.0.0.{number}", sample
            )
            own = own.replace("node.id=1", f"node.id={number}").replace(
                "/1/data", f"/{number}/data"
            )
            if number == "4":
                own = own.replace("process.roles=broker,controller", "process.roles=broker")
                own = re.sub(r",CONTROLLER://\S+|default.replication.factor=3\n", "", own)
            # So that a restart is noticed before the test is over.
            own += "broker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=300\n"
            (self.work / f"{number}.properties").write_text(self.local(own), encoding="utf-8")

    def type(self, line: str) -> None:
        if line.startswith("#"):
            return
        words = [self._expanded(each) for each in self.local(line).split()]
        match words:
            case ["export", assignment] | [assignment] if "=" in assignment:
                name, _, value = assignment.partition("=")
                self.variables[name] = value
            case ["systemctl", "enable", "--now", unit]:
                self.start(unit)
            case ["systemctl", "restart", unit]:
                self.stop(unit)
                self.start(unit)
            case ["ledgerstone", "cluster", "remove", number]:
                self._remove(number)
            case ["ledgerstone", *arguments]:
                done = subprocess.run(
                    self._command(arguments), capture_output=True, text=True, check=False,
                    env=self._environment(), timeout=240,
                )  # fmt: skip
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}{self.logs()}"
            case _:
                raise AssertionError(f"nobody knows how to run {line}")

    def _remove(self, number: str) -> None:
        """The command waits for the machine to be stopped."""
        removing = subprocess.Popen(
            self._command(["cluster", "remove", number]),
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment(),
        )
        assert removing.stderr is not None
        for line in removing.stderr:
            if f"waits for broker {number} to be stopped" in line:
                break
        self.stop(f"ledgerstone@{number}")
        with removing.stderr:
            assert removing.wait(60) == 0, removing.stderr.read()

    def _expanded(self, word: str) -> str:
        return re.sub(r"\$(\w+)", lambda found: self.variables[found[1]], word)

    def _command(self, arguments: list[str]) -> list[str]:
        return [sys.executable, "-m", "ledgerstone", *arguments]

    def _environment(self) -> dict[str, str]:
        return {**broker_environment(), **self.variables}

    def start(self, unit: str) -> None:
        number = unit.partition("@")[2]
        command = self._command(["up", "--config", str(self.work / f"{number}.properties")])
        with (self.work / f"{number}.log").open("ab") as log:
            self.processes[unit] = subprocess.Popen(
                command, stdout=log, stderr=log, env=broker_environment()
            )

    def stop(self, unit: str) -> None:
        process = self.processes.pop(unit)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, self.logs()

    def lose(self, number: str) -> None:
        """The machine with its disk."""
        process = self.processes.pop(f"ledgerstone@{number}")
        process.kill()
        process.wait()
        subprocess.run(["rm", "-r", str(self.work / "lib" / number)], check=True)

    def logs(self) -> str:
        return "\n".join(each.read_text()[-2000:] for each in self.work.glob("*.log"))


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    made = Machines(tmp_path)
    made.write_properties()
    yield made
    for process in made.processes.values():
        process.kill()
        process.wait()


def test_commands_for_three_machines(machines: Machines) -> None:
    sections = re.split(r"^### ", MACHINES, flags=re.MULTILINE)
    titles = ["From one machine to three", "Add a machine", "Take a machine out"]
    titles += ["Restart one after the other", "Replace a lost machine"]
    assert [each.partition("\n")[0] for each in sections[1:]] == titles

    for section in sections:
        title = section.partition("\n")[0]
        if title == titles[-1]:
            machines.lose("3")
        for block in re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            for line in block.splitlines():
                machines.type(line)
        if section is sections[0]:
            _write(machines)
        assert _orders(machines) == ORDERS, title


def _client(machines: Machines) -> Client:
    return Client(parse_bootstrap(machines.variables["LEDGERSTONE_BOOTSTRAP"]))


def _write(machines: Machines) -> None:
    with _client(machines) as client:
        records = [NewRecord("orders", str(each).encode(), b"v" * 100) for each in range(ORDERS)]
        answers = Producer(client).send(records)
    assert [each for each in answers if isinstance(each, Exception)] == []


def _orders(machines: Machines) -> int:
    from ledgerstone.client.fetcher import READ_COMMITTED
    from ledgerstone.testing.reading import read_topic

    with _client(machines) as client:
        return len(read_topic(client, "orders", isolation_level=READ_COMMITTED))
