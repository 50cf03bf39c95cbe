"""Users of SCRAM as the metadata has them: found, and listed. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.kept_records import KeptKey
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import UserScramCredentialRecord
from ledgerstone.security.scram_keys import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramLooks,
    ScramMechanism,
    looks_of,
)

_RECORD: Final = UserScramCredentialRecord.record_type
_OF_KAFKAS_TOOLS: Final = ScramLooks(MIN_ITERATIONS, salt_bytes=None)


def scram_record(
    name: str, mechanism: ScramMechanism, credential: ScramCredential
) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name,
        mechanism,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )


def scram_credential(
    image: MetadataImage, mechanism: ScramMechanism, name: str
) -> ScramCredential | None:
    record = image.kept.get((_RECORD, int(mechanism), name))
    if record is None:
        return None
    assert isinstance(record, UserScramCredentialRecord)
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)


def scram_records(image: MetadataImage) -> Iterator[UserScramCredentialRecord]:
    return (each for each in image.kept.values() if isinstance(each, UserScramCredentialRecord))


class KnownScramUsers:
    """The users of the newest image, for logins."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._counted: Mapping[KeptKey, MetadataRecord] | None = None
        self._usual: dict[int, ScramLooks] = {}

    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return scram_credential(self._image(), mechanism, name)

    def usual_looks(self, mechanism: ScramMechanism) -> ScramLooks:
        """Counted once for each state of the users; where there is none, what Kafka's tools take
        by default."""
        image = self._image()
        if image.kept is not self._counted:
            counts: dict[int, Counter[ScramLooks]] = {}
            for record in scram_records(image):
                looks = looks_of(record.salt, record.iterations)
                counts.setdefault(record.mechanism, Counter())[looks] += 1
            self._usual = {each: found.most_common(1)[0][0] for each, found in counts.items()}
            self._counted = image.kept
        return self._usual.get(mechanism, _OF_KAFKAS_TOOLS)
