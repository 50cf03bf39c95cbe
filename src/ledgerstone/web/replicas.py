"""One partition on every node that hosts it, side by side. Grade D."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ledgerstone.metadata.image import PartitionImage
from ledgerstone.server.anatomy.partition import PartitionAnatomy, anatomy_from_json
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.web.anatomy import panel
from ledgerstone.web.anatomy_legend import COLOURS, MARKS
from ledgerstone.web.forms import whole_number
from ledgerstone.web.hosting import topic_facts, topic_of
from ledgerstone.web.peer_questions import ask_nodes
from ledgerstone.web.router import NotShown, Rendered, SlowAnswer

_MOST_PARTITIONS: Final = 1 << 31
# An analysis that begins with the question is over soon where the log is small. If it is not, the
# page loads itself again.
_TRIES: Final = 2
_PAUSE_S: Final = 0.3


class ReplicaPanel(NamedTuple):
    node: int
    is_leader: bool
    is_in_sync: bool
    is_new: bool  # being added by a move
    is_leaving: bool
    # Records that the leader had and this replica lacked; None if either did not answer.
    lag: int | None
    about: PartitionAnatomy | None
    panel: dict[str, object] | None


def replicas_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> SlowAnswer:
    topic = topic_of(broker, parts)
    number = whole_number(dict(request.query), "partition", at_most=_MOST_PARTITIONS) or 0
    state = broker.image.partition(topic, number)
    if state is None:
        raise NotShown(404, f"There is no partition {number} of {topic}.")
    path = f"topics/{quote(topic, safe='')}/anatomy?partition={number}"
    found: dict[int, PartitionAnatomy] = {}
    for turn in range(_TRIES):
        said = yield partial(
            ask_nodes, broker, state.replicas, path, after_s=_PAUSE_S if turn else 0.0
        )
        found = _anatomies(said)
        if all(each.is_current or each.not_divided for each in found.values()):
            break
    replicas = [_replica(node, state, found) for node in state.replicas]
    facts: dict[str, object] = {
        **topic_facts(broker, topic),
        "number": number,
        "state": state,
        "replicas": replicas,
        "is_counting": any(
            each.division is None and each.not_divided is None for each in found.values()
        ),
        "silent": [each.node for each in replicas if each.about is None],
        "legend": COLOURS,
        "marks": MARKS,
        "own_id": broker.config.node_id,
    }
    return Rendered("replicas.html", facts)


def _anatomies(said: Mapping[int, dict[str, Any] | None]) -> dict[int, PartitionAnatomy]:
    found = {}
    for node, content in said.items():
        try:
            (only,) = (content or {}).get("partitions", ())
            found[node] = anatomy_from_json(only)
        except ValueError:
            # It does not host the partition yet, or is of another version.
            continue
    return found


def _replica(
    node: int, state: PartitionImage, found: Mapping[int, PartitionAnatomy]
) -> ReplicaPanel:
    about, leader = found.get(node), found.get(state.leader)
    lag = None
    if about is not None and leader is not None:
        lag = max(leader.log_end_offset - about.log_end_offset, 0)
    return ReplicaPanel(
        node=node,
        is_leader=node == state.leader,
        is_in_sync=node in state.isr,
        is_new=node in state.adding_replicas,
        is_leaving=node in state.removing_replicas,
        lag=lag,
        about=about,
        panel=None if about is None else panel(about),
    )
