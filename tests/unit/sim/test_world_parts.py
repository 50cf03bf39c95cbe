"""The parts of the simulated cluster: queue, network, clocks, work in steps."""

from collections.abc import Callable

import pytest

from ledgerstone.sim.network import Link, Network, Weather
from ledgerstone.sim.node_clock import NodeClock
from ledgerstone.sim.stepwise import Stepwise
from ledgerstone.sim.world import World


class Host:
    """Keeps what it is told."""

    def __init__(self, name: str, *, is_reachable: bool = True) -> None:
        self.name = name
        self._is_reachable = is_reachable
        self.heard: list[bytes | str] = []
        self.links: list[Link] = []

    def accepts(self, port: int) -> bool:
        return self._is_reachable

    def link_opened(self, link: Link) -> None:
        self.links.append(link)

    def link_received(self, link: Link, data: bytes) -> None:
        self.heard.append(data)

    def link_closed(self, link: Link) -> None:
        self.heard.append("closed")


def connected(weather: Weather | None = None, seed: int = 1) -> tuple[Network, Host, Host, Link]:
    world = World(seed)
    network = Network(world, weather or Weather())
    client, server = Host("client"), Host("server")
    link = network.dial(client, server)
    world.run(5_000)
    return network, client, server, link


def test_events_of_one_moment_run_in_the_order_they_were_scheduled() -> None:
    world, seen = World(0), []
    for name in "abc":
        world.at(5, name, lambda name=name: seen.append(name))  # type: ignore[misc]
    cancelled = world.at(5, "d", lambda: seen.append("d"))
    cancelled.cancel()
    world.run(10)
    assert seen == ["a", "b", "c"]
    assert world.now_ms == 10


@pytest.mark.parametrize("seed", range(20))
def test_a_link_delivers_every_byte_in_order(seed: int) -> None:
    weather = Weather(delay_mean_ms=50, loss_percent=30, twin_percent=50, fragments=3)
    network, client, server, link = connected(weather, seed)
    sent = [b"%d " % n * 5 for n in range(30)]
    for data in sent:
        network.send(link, client, data)
    network.close(link, client)
    network.world.run(60_000)
    assert b"".join(each for each in server.heard if isinstance(each, bytes)) == b"".join(sent)
    assert server.heard[-1] == "closed"


def test_a_cut_holds_one_direction_back() -> None:
    network, client, server, link = connected()
    network.cut("client", "*", until_ms=20_000)
    network.send(link, client, b"question")
    network.send(link, server, b"answer")
    network.world.run(10_000)
    assert (server.heard, client.heard) == ([], [b"answer"])
    network.world.run(30_000)
    assert server.heard == [b"question"]


def test_who_sends_on_a_half_open_link_learns_that_it_is_over() -> None:
    network, client, server, link = connected()
    network.forget(server)
    network.world.run(10_000)
    assert client.heard == []
    network.send(link, client, b"are you there?")
    network.world.run(20_000)
    assert (server.heard, client.heard) == ([], ["closed"])


def test_a_host_without_a_process_refuses() -> None:
    world = World(1)
    network = Network(world, Weather())
    client, server = Host("client"), Host("server", is_reachable=False)
    network.dial(client, server)
    world.run(5_000)
    assert client.heard == ["closed"]


@pytest.mark.parametrize("skew_ppm", [-500, 0, 499])
def test_a_timer_never_fires_early_by_the_clock_it_was_set_on(skew_ppm: int) -> None:
    world = World(0)
    clock = NodeClock(world, skew_ppm=skew_ppm)
    for due_ms in (1, 999, 100_000, 123_457):
        world.run(world.now_ms + clock.world_ms_until(due_ms))
        assert due_ms <= clock.monotonic_ms() <= due_ms + 1


def test_a_wall_jump_leaves_monotonic_time_alone_and_is_remembered() -> None:
    world = World(0)
    clock = NodeClock(world)
    start_ms = clock.now_ms()
    world.run(1_000)
    clock.set_ahead_ms(50_000)
    world.run(2_000)
    clock.set_ahead_ms(-7_000)
    world.run(3_000)
    assert clock.monotonic_ms() == 3_000
    assert clock.now_ms() == start_ms + 3_000 - 7_000
    assert clock.highest_wall_ms(0) == start_ms + 52_000
    assert clock.lowest_wall_ms(1_500) == start_ms - 5_000


def test_work_in_steps_runs_only_when_it_is_resumed() -> None:
    done: list[int] = []

    def work(pause: Callable[[object], None]) -> str:
        for number in range(3):
            done.append(number)
            pause(number)
        return "end"

    steps = Stepwise(work)
    assert [steps.resume(), list(done)] == [0, [0]]
    assert [steps.resume(), list(done)] == [1, [0, 1]]
    steps.resume()
    steps.resume()
    assert (steps.is_done, steps.result) == (True, "end")


def test_cancelled_work_does_nothing_more() -> None:
    done: list[str] = []

    def work(pause: Callable[[object], None]) -> None:
        pause("first")
        done.append("second")

    steps = Stepwise(work)
    steps.resume()
    steps.cancel()
    assert (steps.is_done, done) == (True, [])
