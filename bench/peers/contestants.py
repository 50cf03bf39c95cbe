"""The two brokers, each as processes with a directory, a port and a cost. Shell.

Both run with what they come with. Kafka gets the heap and the collector that its kafka-server-start
asks for; its jars come the way tools/golden fetches them. Ready means the same for both: a topic
was created and a record in it acknowledged.
"""

import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.broker_process import BrokerProcess
from bench.peers.processes import signal_tree, tree_cpu_s, tree_rss_bytes
from bench.raw_client import RawClient, check_produce, create_topic, produce_load
from golden.kafka_broker import CLUSTER_ID
from golden.kafka_tools import LOG4J_PROPERTIES, KafkaJars, KafkaToolError

HOST: Final = "127.0.0.1"
FIRST_TOPIC: Final = "first"
START_TIMEOUT_S: Final = 120.0
POLL_S: Final = 0.005
PORTS: Final = 12_000
# What kafka-server-start and kafka-run-class set unless the environment says otherwise.
KAFKA_JVM: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# One combined node; the rest is the broker's default. Replication factors must fit one node.
KAFKA_CONFIG: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
# A frozen broker sends no heartbeats, and must not be taken for dead by its own controller.
KAFKA_FREEZABLE: Final[Mapping[str, str]] = {"broker.session.timeout.ms": "3600000"}


def quiet_port() -> int:
    """A port that is free with the one after it, below those that the system gives to clients.

    Among those, whoever polls a broker that does not listen yet may be given its very port.
    """
    limits = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    lowest = int(limits.split()[0])
    while True:
        port = random.randrange(max(1024, lowest - PORTS), lowest - 1)
        with closing(socket.socket()) as first, closing(socket.socket()) as second:
            try:
                first.bind((HOST, port))
                second.bind((HOST, port + 1))
            except OSError:
                continue
            return port


@dataclass(slots=True, kw_only=True)
class Contestant(ABC):
    """`directory` gets the data and the broker's log. Starts and ends as often as asked."""

    directory: Path
    name: str
    may_freeze: bool = False
    port: int = field(default_factory=quiet_port)
    _process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def prepare(self) -> None:
        """Once, before the first start; never measured."""

    @abstractmethod
    def command(self) -> list[str]: ...

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def cpu_s(self) -> float:
        return tree_cpu_s(self.pid)

    @property
    def rss_bytes(self) -> int:
        return tree_rss_bytes(self.pid)

    @property
    def as_process(self) -> BrokerProcess:
        """For the benchmarks that know only our own broker."""
        return BrokerProcess(pid=self.pid, host=HOST, port=self.port, ready_s=0.0)

    def start(self, is_ready: Callable[[], bool] | None = None) -> float:
        """Seconds from the start of the process until it is ready."""
        assert self._process is None
        with (self.directory / "broker.log").open("ab") as log:
            started = time.perf_counter()
            # A group of its own: Ctrl-C in the terminal is for us, who then end it.
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, start_new_session=True
            )
        self.wait_until(is_ready or self.accepts_first_produce, started)
        return time.perf_counter() - started

    def wait_until(self, is_ready: Callable[[], bool], started: float) -> None:
        assert self._process is not None
        while not is_ready():
            is_late = time.perf_counter() - started > START_TIMEOUT_S
            if self._process.poll() is not None or is_late:
                text = (self.directory / "broker.log").read_text("utf-8", errors="replace")
                raise RuntimeError(f"{self.name} did not become ready:\n{text[-3000:]}")
            time.sleep(POLL_S)

    def accepts_first_produce(self) -> bool:
        return self.accepts_produce(FIRST_TOPIC, 1)

    def accepts_produce(self, topic: str, partitions: int) -> bool:
        """Whether every partition takes a record; makes the topic where it is missing."""
        try:
            with RawClient(HOST, self.port) as client:
                if topic == FIRST_TOPIC and not self._has_topic(topic):
                    create_topic(client, topic)
                for number in range(partitions):
                    check_produce(client, produce_load(topic, 100, 100, number))
        except (OSError, RuntimeError):
            # Refused, closed, or an error code of a broker that is not there yet.
            return False
        return True

    def _has_topic(self, topic: str) -> bool:
        return (self.data / f"{topic}-0").exists()

    def freeze(self) -> None:
        assert self.may_freeze
        signal_tree(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        signal_tree(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """kill -9, frozen or not. The data of a benchmark needs no clean stop."""
        if self._process is None:
            return
        signal_tree(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None


@dataclass(slots=True, kw_only=True)
class Ledgerstone(Contestant):
    name: str = "Ledgerstone"

    def prepare(self) -> None:
        self.directory.mkdir(parents=True)

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "ledgerstone", "up", "--data", str(self.data)),
            *("--listen", self.bootstrap, "--http", f"{HOST}:0", "--log-level", "warning"),
        ]


@dataclass(slots=True, kw_only=True)
class Kafka(Contestant):
    jars: KafkaJars
    name: str = "Apache Kafka"
    settings: Mapping[str, str] = field(default_factory=dict)
    # Besides its own two, such as "SSL://127.0.0.1:9093".
    more_listeners: tuple[str, ...] = ()

    def prepare(self) -> None:
        self.directory.mkdir(parents=True)
        self.write_properties()
        log4j = LOG4J_PROPERTIES.format(level="info")
        (self.directory / "log4j2.properties").write_text(log4j, encoding="utf-8")
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        command = self.jars.java("kafka.tools.StorageTool", *arguments)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise KafkaToolError(done.stdout + done.stderr)

    def write_properties(self) -> None:
        own = (f"PLAINTEXT://{self.bootstrap}", f"CONTROLLER://{HOST}:{self.port + 1}")
        config = {
            **KAFKA_CONFIG,
            **(KAFKA_FREEZABLE if self.may_freeze else {}),
            **self.settings,
            "listeners": ",".join((*own, *self.more_listeners)),
            "controller.quorum.voters": f"1@{HOST}:{self.port + 1}",
            "log.dirs": str(self.data),
        }
        lines = [f"{key}={value}\n" for key, value in config.items()]
        self._properties.write_text("".join(lines), encoding="utf-8")

    @property
    def _properties(self) -> Path:
        return self.directory / "server.properties"

    def command(self) -> list[str]:
        return [
            *("java", *KAFKA_JVM),
            f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}",
            *("-cp", f"{self.jars.directory / 'libs'}/*", "kafka.Kafka", str(self._properties)),
        ]


def restored(contestant: Contestant, saved: Path) -> None:
    """Puts back the data directory as it was saved."""
    shutil.rmtree(contestant.data, ignore_errors=True)
    shutil.copytree(saved, contestant.data, symlinks=True)
