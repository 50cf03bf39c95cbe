"""Three controllers in one process, over real sockets and real disks: elect, replicate, survive."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from ledgerstone.server.bootstrap import RunningBroker, start_broker
from ledgerstone.server.opening import Surroundings
from ledgerstone.storage.log_dir_files import MetaProperties, write_meta_properties
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.uuid_text import uuid_to_text

TIMEOUT_S = 40
CLUSTER_ID = uuid_to_text(bytes(15) + b"\x07")
FAST = {
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "4000",
}


class Cluster:
    def __init__(self, work: Path) -> None:
        self.work = work
        self.ports = {node_id: _free_port() for node_id in (1, 2, 3)}
        self.running: dict[int, RunningBroker] = {}

    def config(self, node_id: int) -> BrokerConfig:
        is_controller = node_id in self.ports
        port = self.ports.get(node_id, 0)
        voters = ",".join(f"{each}@127.0.0.1:{at}" for each, at in self.ports.items())
        return BrokerConfig.from_raw(
            {
                **FAST,
                "process.roles": "controller" if is_controller else "broker",
                "node.id": str(node_id),
                "log.dirs": str(self.work / str(node_id)),
                "listeners": f"{'CONTROLLER' if is_controller else 'PLAINTEXT'}://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
            }
        )

    async def start(self, *ids: int) -> None:
        await asyncio.gather(*(self._start(each) for each in ids))

    async def _start(self, node_id: int) -> None:
        fs, directory = OsFilesystem(), self.work / str(node_id)
        if not directory.exists():
            directory.mkdir()
            own_id = bytes(15) + bytes([100 + node_id])
            meta = MetaProperties(cluster_id=CLUSTER_ID, node_id=node_id, directory_id=own_id)
            write_meta_properties(fs, str(directory / "meta.properties"), meta)
        world = Surroundings(fs=fs, clock=SystemClock(), dice=SystemDice())
        self.running[node_id] = await start_broker(self.config(node_id), world)

    async def kill(self, node_id: int) -> None:
        """Its connections break; nothing is said, and nothing is closed."""
        running = self.running.pop(node_id)
        await running.runtime.stop()
        running.broker.log_dir.lock.release()

    async def leader(self) -> RunningBroker:
        found: list[RunningBroker] = []

        def is_there() -> bool:
            found[:] = [each for each in self.running.values() if _leads(each)]
            return bool(found)

        await until(is_there)
        return found[0]

    async def write(self, *values: str) -> int:
        """Commits settings of the cluster; returns the offset behind them."""
        leader = await self.leader()
        for value in values:
            leader.broker.controller_link.write([ConfigRecord(4, "", "log.retention.ms", value)])
        leader.runtime.wake()
        end = leader.broker.quorum.end_offset
        await until(lambda: leader.broker.quorum.high_watermark >= end)
        return end

    async def stop(self) -> None:
        await asyncio.gather(*(each.stop(lambda: True) for each in self.running.values()))


def _leads(running: RunningBroker) -> bool:
    return running.broker.controller_link.is_active


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port


async def until(is_done: Callable[[], bool]) -> None:
    while not is_done():
        await asyncio.sleep(0.005)


def run(work: Path, story: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = Cluster(work)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await story(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


def retention(running: RunningBroker) -> str | None:
    configs = running.broker.image.configs
    return next((values.get("log.retention.ms") for values in configs.values()), None)


def metadata_of(running: RunningBroker) -> bytes:
    log = running.broker.quorum.log
    return log.read(log.start_offset, 1 << 20)


def test_three_nodes_elect_replicate_and_survive_the_death_of_their_leader(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        end = await cluster.write("1000", "2000")
        await until(
            lambda: all(
                each.broker.quorum.high_watermark >= end for each in cluster.running.values()
            )
        )
        assert [retention(each) for each in cluster.running.values()] == ["2000"] * 3

        first = await cluster.leader()
        first_id = first.broker.config.node_id
        await cluster.kill(first_id)
        end = await cluster.write("3000")
        second = await cluster.leader()
        assert second.broker.config.node_id != first_id
        assert second.broker.quorum.epoch > 1

        await cluster.start(first_id)
        back = cluster.running[first_id]
        await until(lambda: retention(back) == "3000")
        await until(lambda: metadata_of(back) == metadata_of(second))

    run(tmp_path, story)


def test_wiped_broker_fetches_a_snapshot_and_follows(tmp_path: Path) -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.start(1, 2, 3)
        await cluster.write(*(str(n) for n in range(1000, 1100)))
        leader = await cluster.leader()
        await until(lambda: bool(leader.broker.quorum.snapshots.ids()))
        await cluster.start(9)
        observer = cluster.running[9].broker.quorum
        assert observer.snapshots.ids()
        assert observer.log.start_offset > 0
        await until(lambda: retention(cluster.running[9]) == "1099")

    run(tmp_path, story)
