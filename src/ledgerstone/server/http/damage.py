"""The part of the JSON API that is about damage. Grade D.

GET  /api/v1/damage                                 what was found and is not acknowledged
POST /api/v1/damage/acknowledge {"partition": "T-N"}    somebody knows: the partition opens with
                                                    what can be read; "" for other files
"""

from collections.abc import Callable, Mapping

from ledgerstone.server.broker import Broker
from ledgerstone.server.damage import REFUSALS, acknowledge, note_json
from ledgerstone.server.http.json_body import Refused, body_of
from ledgerstone.server.http.server import HttpRequest

Calls = Mapping[str, Callable[[], object]]


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about damage."""
    match parts:
        case ["damage"]:
            return {"GET": lambda: _list(broker)}
        case ["damage", "acknowledge"]:
            return {"POST": lambda: _acknowledge(broker, request)}
        case _:
            return None


def _list(broker: Broker) -> object:
    return {"damage": [note_json(note) for note in broker.log_dirs.open_notes()]}


def _acknowledge(broker: Broker, request: HttpRequest) -> object:
    name = body_of(request).get("partition")
    if type(name) is not str:
        raise Refused(400, 'partition must be the name of one, as "orders-0"')
    if not broker.log_dirs.open_notes(name):
        raise Refused(404, f"no damage of {name or 'files beside the partitions'} is noted")
    try:
        return {"acknowledged": acknowledge(broker, name)}
    except REFUSALS as error:
        raise Refused(503, f"{name} cannot be opened: {error}") from error
