"""The first voters of a quorum: `id@host:port:directory-id`, comma separated. Pure."""

import re
from typing import Final

from ledgerstone.errors import FormatRefused
from ledgerstone.raft.replica import Listener, ReplicaKey
from ledgerstone.raft.voters import Voter, VoterSet
from ledgerstone.uuid_text import ZERO_UUID, uuid_from_text

OPTION: Final = "--initial-controllers"
_VOTER: Final = re.compile(
    r"([0-9]{1,10})@(?:\[([0-9A-Fa-f:.]+)\]|([^\s:@\[\]]+)):([0-9]{1,5}):([A-Za-z0-9_-]{22})"
)


def parse_first_voters(text: str, listener_name: str) -> VoterSet:
    """Their endpoints get the name of the first controller listener."""
    voters = [_voter(part.strip(), listener_name) for part in text.split(",") if part.strip()]
    if not voters:
        raise FormatRefused(f"{OPTION} {text}: must name at least one voter")
    ids = [voter.key.id for voter in voters]
    if len(dict.fromkeys(ids)) != len(ids):
        raise FormatRefused(f"{OPTION} {text}: must name each node once")
    directories = [voter.key.directory_id for voter in voters]
    if len(dict.fromkeys(directories)) != len(directories):
        raise FormatRefused(f"{OPTION} {text}: must give each node a directory id of its own")
    return VoterSet(voters)


def _voter(text: str, listener_name: str) -> Voter:
    found = _VOTER.fullmatch(text)
    if found is None or not 0 < int(found[4]) < 65_536:
        raise FormatRefused(f"{OPTION} {text}: must be a list of id@host:port:directory-id")
    try:
        directory_id = uuid_from_text(found[5])
    except ValueError as error:
        raise FormatRefused(f"{OPTION} {text}: {error}") from error
    if directory_id == ZERO_UUID:
        raise FormatRefused(f"{OPTION} {text}: must have a directory id that is not zero")
    return Voter(
        key=ReplicaKey(int(found[1]), directory_id),
        listeners=(Listener(listener_name, found[2] or found[3], int(found[4])),),
    )
