"""What a pipeline says about itself, in the metadata of its group's commits. Pure.

The commit is where brokers see a pipeline anyway, so its state needs no other way to them, no
right and no port; it is replicated, and goes with the group. The text stays in the log of a topic
that no erasure looks at, so it never holds a part of a record: errors are named, not quoted.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from ledgerstone.dataclasses import asdict, dataclass

_FIELD: Final = "pipeline"
_MAX_TEXT: Final = 300
# A run that is idle says so this often; one that is silent for longer may be dead.
BEAT_MS: Final = 30_000
SILENT_MS: Final = 4 * BEAT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    name: str
    table: str  # type and name, without a connection string
    state: str
    said_ms: int
    lag: int
    rows_per_s: float
    error: str | None = None

    def is_silent(self, now_ms: int) -> bool:
        return self.state == "running" and now_ms - self.said_ms > SILENT_MS


def metadata_text(at_ms: int, announced: Announced | None = None) -> str:
    """`at_ms` is when the partition was read last, which tells how long a reader was away."""
    content: dict[str, Any] = {"at_ms": at_ms}
    if announced is not None:
        said = asdict(announced)
        content[_FIELD] = {name: _cut(value) for name, value in said.items()}
    return json.dumps(content)


def _cut(value: object) -> object:
    return value[:_MAX_TEXT] if isinstance(value, str) else value


def announced_in(metadata: str | None) -> Announced | None:
    """None if it is not ours: anybody may commit anything."""
    try:
        content = json.loads(metadata or "")
        said = content[_FIELD]
        return _checked(said)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _checked(said: Mapping[str, Any]) -> Announced:
    texts = {name: str(said[name])[:_MAX_TEXT] for name in ("name", "table", "state")}
    error = said.get("error")
    numbers = (said["said_ms"], said["lag"], said["rows_per_s"])
    if not all(isinstance(each, int | float) and 0 <= each < 1 << 62 for each in numbers):
        raise ValueError("not numbers")
    return Announced(
        **texts,
        said_ms=int(numbers[0]),
        lag=int(numbers[1]),
        rows_per_s=float(numbers[2]),
        error=None if error is None else str(error)[:_MAX_TEXT],
    )
