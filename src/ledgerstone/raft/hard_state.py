"""What a replica must never forget: its epoch, its vote, the leader. And its file's format. Pure.

`quorum-state` is one line of JSON, Kafka's: version 0 with kraft.version 0, version 1 after that.
"""

import json
from typing import Any, Final, NamedTuple

from ledgerstone.raft.replica import NO_DIRECTORY, NO_NODE, ReplicaKey
from ledgerstone.types import INT32_MAX
from ledgerstone.uuid_text import uuid_from_text, uuid_to_text

STATIC_FORMAT: Final = 0
DYNAMIC_FORMAT: Final = 1


class HardState(NamedTuple):
    epoch: int = 0
    leader_id: int | None = None
    # Kept beside the leader of the same epoch: a vote is for the whole epoch.
    voted: ReplicaKey | None = None

    def __str__(self) -> str:
        leader = "-" if self.leader_id is None else self.leader_id
        return f"epoch={self.epoch} leader={leader} voted={self.voted or '-'}"


class UnreadableHardState(ValueError):
    """A replica that forgot its vote could vote twice, so it must not start."""


def encode_hard_state(state: HardState, *, kraft_version: int, voter_ids: tuple[int, ...]) -> bytes:
    leader_id = NO_NODE if state.leader_id is None else state.leader_id
    voted_id = NO_NODE if state.voted is None else state.voted.id
    fields: dict[str, Any]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": each} for each in voter_ids],
            "data_version": STATIC_FORMAT,
        }
    else:
        directory_id = NO_DIRECTORY if state.voted is None else state.voted.directory_id
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted_id,
            "votedDirectoryId": uuid_to_text(directory_id),
            "data_version": DYNAMIC_FORMAT,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_hard_state(data: bytes) -> HardState:
    """UnreadableHardState, with the reason, for anything but what Kafka or we write."""
    try:
        fields = json.loads(data.decode())
    except ValueError as error:
        raise UnreadableHardState(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UnreadableHardState("not a JSON object")
    version = _number(fields, "data_version", low=0)
    if version not in (STATIC_FORMAT, DYNAMIC_FORMAT):
        raise UnreadableHardState(f"data_version {version}; this release reads 0 and 1")
    leader_id = _number(fields, "leaderId", low=NO_NODE)
    voted_id = _number(fields, "votedId", low=NO_NODE)
    directory_id = NO_DIRECTORY
    if version == DYNAMIC_FORMAT:
        try:
            directory_id = uuid_from_text(str(fields.get("votedDirectoryId")))
        except ValueError as error:
            raise UnreadableHardState(f"votedDirectoryId: {error}") from error
    return HardState(
        epoch=_number(fields, "leaderEpoch", low=0),
        leader_id=None if leader_id == NO_NODE else leader_id,
        voted=None if voted_id == NO_NODE else ReplicaKey(voted_id, directory_id),
    )


def _number(fields: dict[str, Any], name: str, *, low: int) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= INT32_MAX:
        raise UnreadableHardState(f"{name} is {value!r}")
    return value
