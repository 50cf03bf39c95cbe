"""The nodes of a cluster on one machine."""

import json

import pytest

from ledgerstone.cluster.layout import (
    DEFAULT_BASE_PORT,
    ClusterLayout,
    LayoutRefused,
    layout_from_json,
    new_layout,
)
from ledgerstone.cluster.ready_file import ready_facts
from ledgerstone.config.broker import load_broker_config

IDS = [f"{letter * 21}A" for letter in "abcdef"]


def laid_out(nodes: int = 3, *, taken: tuple[int, ...] = (), **more: object) -> ClusterLayout:
    given: dict[str, object] = {"base_port": None, "racks": (), "settings": {}, **more}
    return new_layout(
        node_count=nodes,
        cluster_id="TGVkZ2Vyc3RvbmVHb2xkZQ",
        directory_ids=IDS,
        host="127.0.0.1",
        is_free=lambda port: port not in taken,
        **given,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("nodes", "controllers"), [(1, [1]), (2, [1]), (3, [1, 2, 3]), (5, [1, 2, 3])]
)
def test_the_first_three_nodes_vote(nodes: int, controllers: list[int]) -> None:
    assert [each.node_id for each in laid_out(nodes).controllers] == controllers


def test_settings_of_each_node_are_those_of_a_broker_that_starts() -> None:
    layout = laid_out(4, racks=("a", "b"), settings={"num.partitions": "6"})

    configs = [
        load_broker_config(
            overrides=[f"{key}={value}" for key, value in layout.settings_of(each, "/d").items()]
        )
        for each in layout
    ]

    assert [each.warnings for each in configs] == [()] * 4
    assert [each.config.cluster.is_controller for each in configs] == [True, True, True, False]
    assert [each.config.broker_rack for each in configs] == ["a", "b", "a", "b"]
    assert [each.config.default_replication_factor for each in configs] == [3, 3, 3, 1]
    assert {each.config.raw["min.insync.replicas"] for each in configs} == {"2"}
    assert {each.config.raw["num.partitions"] for each in configs[:3]} == {"6"}


def test_a_cluster_passes_ports_in_use_by() -> None:
    assert laid_out().base_port == DEFAULT_BASE_PORT
    assert laid_out(taken=(DEFAULT_BASE_PORT + 12,)).base_port == DEFAULT_BASE_PORT + 100


def test_a_base_port_that_was_asked_for_must_be_free() -> None:
    with pytest.raises(LayoutRefused, match="port 20011 is in use"):
        laid_out(base_port=20_000, taken=(20_011,))


def test_an_added_node_gets_the_next_id_and_free_ports() -> None:
    layout = laid_out(base_port=20_000).with_node(
        directory_id=IDS[3], is_free=lambda port: port != 20_031, rack="c"
    )

    added = layout.node(4)

    assert (added.roles, added.rack, added.ports) == ("broker", "c", (20_040, 20_041, 20_042))


def test_the_id_of_a_removed_node_is_not_given_out_again() -> None:
    layout = laid_out(4).without(4)

    again = layout.with_node(directory_id=IDS[4], is_free=lambda port: True)

    assert [each.node_id for each in again] == [1, 2, 3, 5]
    with pytest.raises(LayoutRefused, match="there is no node 4; nodes are 1, 2, 3, 5"):
        again.node(4)


def test_the_last_node_stays() -> None:
    with pytest.raises(LayoutRefused, match="is the last one"):
        laid_out(1).without(1)


def test_layout_comes_back_from_its_file() -> None:
    layout = laid_out(4, racks=("a",), settings={"num.partitions": "6"}).without(4)

    assert layout_from_json(json.loads(json.dumps(layout.to_json()))) == layout


@pytest.mark.parametrize("content", [None, [], {}, {"format": 1}, {"format": 2, "nodes": []}])
def test_other_files_are_no_layout(content: object) -> None:
    with pytest.raises(LayoutRefused):
        layout_from_json(content)


def test_ready_file_names_every_node() -> None:
    nodes = [
        {"id": 1, "pid": 7, "bootstrap": "h:1", "http": "h:2", "state": "up", "token": "t"},
        {"id": 2, "pid": 8, "bootstrap": "h:3", "http": "h:4", "state": "waiting", "token": "u"},
    ]

    facts = ready_facts(nodes)

    assert facts["bootstrap"] == "h:1,h:3"
    assert facts["http"] == "h:2"
    assert facts["nodes"]["1"] == {
        "pid": 7,
        "bootstrap": "h:1",
        "http": "h:2",
        "up": True,
        "token": "t",
    }
    assert facts["nodes"]["2"]["up"] is False
