"""Clients from the package index that log in: each makes a topic's worth of records and reads them.

What went wrong comes back as text, whatever the client makes of it; None is a good login.
"""

import asyncio
import time
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import aiokafka
import aiokafka.abc
import confluent_kafka
from aiokafka.errors import KafkaError as AioKafkaError

with warnings.catch_warnings():
    # It reads its schemas with a deprecated function; the suite treats warnings as errors.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka
    from kafka.errors import KafkaError as KafkaPythonError
    from kafka.net.sasl.oauth import AbstractTokenProvider

TIMEOUT_S: Final = 15.0


class Account(NamedTuple):
    """By OAUTHBEARER the password is a token. Where it is not right, clients that would try again
    or wait for more are to give up soon."""

    mechanism: str
    name: str
    password: str
    is_right: bool = True


class _PlainToken(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    def token(self) -> str:
        return self._token


class _Token(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


TryLogin = Callable[[str, Account, str], str | None]


def confluent(bootstrap: str, account: Account, topic: str) -> str | None:
    heard: list[str] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": account.mechanism,
            "sasl.username": account.name,
            "sasl.password": account.password,
            "error_cb": lambda error: heard.append(str(error)),
            "log_level": 0,
            **(
                {"oauth_cb": lambda _: (account.password, time.time() + 3600)}
                if account.mechanism == "OAUTHBEARER"
                else {}
            ),
        }
    )
    delivered: list[Any] = []
    producer.produce(topic, b"value", b"key", on_delivery=lambda error, _: delivered.append(error))
    deadline_s = time.monotonic() + TIMEOUT_S
    while not delivered and not heard and time.monotonic() < deadline_s:
        producer.poll(0.05)
    return None if delivered == [None] else " ".join(heard)


def kafka_python_producer(bootstrap: str, account: Account) -> Any:
    return kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=account.mechanism,
        sasl_plain_username=account.name,
        sasl_plain_password=account.password,
        sasl_oauth_token_provider=_PlainToken(account.password),
        max_block_ms=TIMEOUT_S * 1000,
        # It tries again and again, whatever it was told. A busy broker needs a while to tell it.
        bootstrap_timeout_ms=TIMEOUT_S * 1000 if account.is_right else 1_000,
    )


def kafka_python(bootstrap: str, account: Account, topic: str) -> str | None:
    try:
        producer = kafka_python_producer(bootstrap, account)
    except KafkaPythonError as error:
        return str(error) or type(error).__name__
    try:
        producer.send(topic, b"value", b"key").get(TIMEOUT_S)
    except KafkaPythonError as error:
        return str(error) or type(error).__name__
    finally:
        producer.close(timeout=1)
    return None


def aio(bootstrap: str, account: Account, topic: str) -> str | None:
    return asyncio.run(_aio(bootstrap, account, topic))


async def _aio(bootstrap: str, account: Account, topic: str) -> str | None:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=account.mechanism,
        sasl_plain_username=account.name,
        sasl_plain_password=account.password,
        sasl_oauth_token_provider=_Token(account.password),
        # It waits for an answer to the reason for which its token was refused, and gives up then.
        request_timeout_ms=int(TIMEOUT_S * 1000) if account.is_right else 1_000,
    )
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"value", b"key")
    except AioKafkaError as error:
        return str(error) or type(error).__name__
    finally:
        await producer.stop()
    return None


CLIENTS: Final[dict[str, TryLogin]] = {
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aio,
}
