"""A login by SCRAM, seen from the broker. RFC 5802 with SHA-256 and SHA-512, RFC 7677. Pure.

Differs from Kafka: a user that is not known is refused after the last step, as one with a wrong
password is, with a salt that is the same on every try. Kafka refuses after the first.
"""

import hmac
from typing import Final, Protocol

from ledgerstone.security.exchange import (
    Accepted,
    Challenge,
    LoginRefused,
    other_authorization_id,
)
from ledgerstone.security.scram_keys import (
    MIN_ITERATIONS,
    ScramCredential,
    ScramLooks,
    ScramMechanism,
    fake_credential,
    stored_key_of,
)
from ledgerstone.security.scram_messages import (
    ClientFirst,
    is_binding_of,
    read_client_final,
    read_client_first,
    write_server_final,
    write_server_first,
)

# Kafka's clients name this extension where the user is the id of a delegation token.
_TOKEN_LOGIN: Final = "tokenauth"


class ScramUsers(Protocol):
    def find(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None: ...

    def usual_looks(self, mechanism: ScramMechanism) -> ScramLooks:
        """What most users have, so that one who is not known does not stand out."""
        ...


class ScramServer:
    """`secret` stays the same while the broker lives: it makes the salts of unknown users."""

    def __init__(
        self, mechanism: ScramMechanism, users: ScramUsers, *, secret: bytes, server_nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._users = users
        self._secret = secret
        self._server_nonce = server_nonce
        self._first: ClientFirst | None = None
        self._credential: ScramCredential | None = None
        self._server_first = ""
        self._is_known = False

    def respond(self, data: bytes) -> Challenge | Accepted:
        return self._begin(data) if self._first is None else self._end(data)

    def _begin(self, data: bytes) -> Challenge:
        first = self._first = read_client_first(data)
        if first.authorization_id and first.authorization_id != first.name:
            raise other_authorization_id()
        is_token = first.extensions.get(_TOKEN_LOGIN, "").lower() == "true"
        # There are no delegation tokens: nobody has such a name.
        known = None if is_token else self._users.find(self._mechanism, first.name)
        # Made in either case: it must not show in time which one is used.
        fake = fake_credential(
            self._mechanism,
            first.name,
            self._secret,
            self._users.usual_looks(self._mechanism),
        )
        self._is_known = known is not None and known.iterations >= MIN_ITERATIONS
        self._credential = known if known is not None and self._is_known else fake
        self._server_first = write_server_first(
            first.nonce + self._server_nonce, self._credential.salt, self._credential.iterations
        )
        return Challenge(self._server_first.encode())

    def _end(self, data: bytes) -> Accepted:
        first, credential, hash_name = self._first, self._credential, self._mechanism.hash_name
        assert first is not None
        assert credential is not None
        final = read_client_final(data)
        # All of it (CVE-2024-56128).
        is_same = hmac.compare_digest(
            final.nonce.encode(), (first.nonce + self._server_nonce).encode()
        )
        if not is_same:
            raise LoginRefused("Invalid client nonce in the final client message.")
        if not is_binding_of(final.binding, first.header):
            raise LoginRefused("client-final-message: the channel binding is another one")
        message = f"{first.bare},{self._server_first},{final.without_proof}".encode()
        signature = hmac.digest(credential.stored_key, message, hash_name)
        if len(final.proof) != len(signature):
            raise LoginRefused("Invalid client credentials")
        client_key = bytes(a ^ b for a, b in zip(final.proof, signature, strict=True))
        stored_key = stored_key_of(self._mechanism, client_key)
        if not (hmac.compare_digest(stored_key, credential.stored_key) and self._is_known):
            raise LoginRefused("Invalid client credentials")
        server_signature = hmac.digest(credential.server_key, message, hash_name)
        return Accepted(write_server_final(server_signature).encode(), first.name)
