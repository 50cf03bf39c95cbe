"""Records of what this release does not act on: SCRAM users, delegation tokens. Pure.

They are kept in the image as they came, the newest of each key, so that snapshots carry them on and
a node that does act on them finds them unchanged.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

# The type of the record that sets it, and what tells two of that type apart.
KeptKey = tuple[Any, ...]


def _scram_key(record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> KeptKey:
    return (UserScramCredentialRecord.record_type, record.mechanism, record.name)


def _token_key(record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> KeptKey:
    return (DelegationTokenRecord.record_type, record.token_id)


# The key of each record, and whether the record removes what has the key.
KEYS: Final[Mapping[type[MetadataRecord], tuple[Callable[[Any], KeptKey], bool]]] = {
    UserScramCredentialRecord: (_scram_key, False),
    RemoveUserScramCredentialRecord: (_scram_key, True),
    DelegationTokenRecord: (_token_key, False),
    RemoveDelegationTokenRecord: (_token_key, True),
}


def kept_key(record: MetadataRecord) -> tuple[KeptKey, bool]:
    """The key, and whether it goes."""
    key_of, removes = KEYS[type(record)]
    return key_of(record), removes
