"""The cleaning of a broker process as its HTTP API and the kernel show it."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tests.kit.broker import BrokerProcess, wait_until


def post(broker: BrokerProcess, path: str, **content: Any) -> Any:
    request = Request(
        f"{broker.http}/api/v1/{path}",
        data=json.dumps(content).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=30) as response:
        return json.load(response)


def get(broker: BrokerProcess, path: str) -> Any:
    return json.loads(broker.get(f"/api/v1/{path}"))


def ask_for_a_pass(broker: BrokerProcess, topic: str) -> int:
    """The number of the ticket."""
    (ticket,) = post(broker, f"topics/{topic}/compact")["tickets"]
    return int(ticket["ticket"])


def await_ticket(broker: BrokerProcess, number: int, timeout_s: float = 60.0) -> dict[str, Any]:
    def done() -> Any:
        found = get(broker, f"tickets/{number}")
        return found if found["done"] else None

    ticket: dict[str, Any] = wait_until(done, f"ticket {number} is done", timeout_s)
    return ticket


def compact(broker: BrokerProcess, topic: str) -> dict[str, Any]:
    """Asks for a pass and waits for it; what became of it."""
    return await_ticket(broker, ask_for_a_pass(broker, topic))


def is_in_progress(broker: BrokerProcess, topic: str) -> bool:
    (partition,) = get(broker, f"topics/{topic}/cleaning")["partitions"]
    return bool(partition["state"] == "in progress")


def readiness(broker: BrokerProcess) -> tuple[int, str]:
    try:
        return 200, broker.get("/readyz")
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


def metric(broker: BrokerProcess, name: str) -> float:
    """The value of a metric without labels."""
    (found,) = re.findall(rf"^{name} (\S+)$", broker.get("/metrics"), re.MULTILINE)
    return float(found)


def workers_of(pid: int) -> list[int]:
    """Live processes whose parent this is, and that run a program of their own.

    A child is still the parent's program until it has called exec, and the parent stands still
    until then: whoever stopped the child in that moment would have stopped both.
    """
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] == "Z" or int(fields[1]) != pid:
                    continue
                if (entry / "cmdline").read_bytes() != own:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
