"""A login by SCRAM, seen from a client of ours. Pure.

The broker is to prove that it knows the user, too: without that, somebody in between could have
answered. Iterations are bounded, because it is the broker that says how long we work.
"""

import hmac

from ledgerstone.protocol.client_login import LoginFailed
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.security.exchange import LoginRefused
from ledgerstone.security.scram_keys import (
    MAX_ITERATIONS_OF_OTHERS,
    MIN_ITERATIONS,
    ScramMechanism,
    client_key_of,
    salt_password,
    server_key_of,
    stored_key_of,
)
from ledgerstone.security.scram_messages import (
    escape,
    read_server_final,
    read_server_first,
    write_client_final_without_proof,
    write_proof,
)


class ScramClient:
    def __init__(
        self, mechanism: ScramMechanism, name: str, password: str, client_nonce: str
    ) -> None:
        self._mechanism = mechanism
        self._password = password.encode()
        self._nonce = client_nonce
        self._bare = f"n={escape(name)},r={client_nonce}"
        self._signature: bytes | None = None
        self._is_over = False

    @property
    def mechanism(self) -> str:
        return self._mechanism.text

    def begin(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def respond(self, data: bytes) -> bytes | None:
        try:
            return self._respond(data)
        except LoginRefused as refused:
            raise LoginFailed(ErrorCode.SASL_AUTHENTICATION_FAILED, str(refused)) from None

    def _respond(self, data: bytes) -> bytes | None:
        if self._signature is None:
            return self._prove(data)
        if self._is_over or not hmac.compare_digest(read_server_final(data), self._signature):
            raise LoginRefused("the broker did not prove that it knows the user")
        self._is_over = True
        return None

    def _prove(self, data: bytes) -> bytes:
        mechanism, first = self._mechanism, read_server_first(data)
        if not first.nonce.startswith(self._nonce) or len(first.nonce) == len(self._nonce):
            raise LoginRefused("the broker's nonce does not go on from ours")
        if not MIN_ITERATIONS <= first.iterations <= MAX_ITERATIONS_OF_OTHERS:
            low, high = MIN_ITERATIONS, MAX_ITERATIONS_OF_OTHERS
            raise LoginRefused(
                f"the broker asks for {first.iterations} iterations, not {low}-{high}"
            )
        salted = salt_password(mechanism, self._password, first.salt, first.iterations)
        client_key = client_key_of(mechanism, salted)
        without_proof = write_client_final_without_proof(first.nonce)
        message = f"{self._bare},{data.decode()},{without_proof}".encode()
        stored_key = stored_key_of(mechanism, client_key)
        signature = hmac.digest(stored_key, message, mechanism.hash_name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = server_key_of(mechanism, salted)
        self._signature = hmac.digest(server_key, message, mechanism.hash_name)
        return f"{without_proof},{write_proof(proof)}".encode()
