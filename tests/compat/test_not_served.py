"""Features that are not built yet: clients get a final error at once that names the feature.

Retriable answers would have each of them wait for a time-out of its own, a minute or more.
"""

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
)
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, ShareConsumer

from tests.compat.conftest import CreateTopic, NewName
from tests.kit.broker import BrokerProcess, wait_until

# Clients wait for 30 s and more before they give up; a busy machine answers much sooner.
SOON_S = 10.0


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    started_s = time.monotonic()
    yield
    assert time.monotonic() - started_s < SOON_S


def silent() -> logging.Logger:
    """librdkafka also logs what it raises."""
    logger = logging.getLogger("librdkafka")
    logger.propagate = False
    logger.addHandler(logging.NullHandler())
    return logger


def test_consumer_of_the_new_group_protocol_is_told_to_use_the_classic_one(
    broker: BrokerProcess, create_topic: CreateTopic, new_name: NewName
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": new_name("group"),
            "group.protocol": "consumer",
        },
        logger=silent(),
    )
    consumer.subscribe([create_topic()])

    try:
        message = wait_until(lambda: consumer.poll(1), "an error comes", SOON_S)
    finally:
        consumer.close()

    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() == KafkaError._FATAL  # its name in the public docs
    assert "API version not supported" in error.str()


def test_share_consumer_is_told_that_there_are_no_share_groups(
    broker: BrokerProcess, create_topic: CreateTopic, new_name: NewName
) -> None:
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": new_name("share")}
    consumer = ShareConsumer(settings, logger=silent())
    consumer.subscribe([create_topic()])

    try:
        with pytest.raises(KafkaException) as refusal:
            wait_until(lambda: consumer.poll(1), "an error comes", SOON_S)
    finally:
        consumer.close()

    error: KafkaError = refusal.value.args[0]
    assert error.fatal()
    assert error.code() == KafkaError.UNSUPPORTED_VERSION
    assert "ShareGroupHeartbeat" in error.str()


def test_login_is_refused(broker: BrokerProcess) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="ann",
            sasl_plain_password="secret",
        )
        try:
            await producer.start()
        finally:
            await producer.stop()

    with pytest.raises((KafkaConnectionError, IllegalSaslStateError)):
        asyncio.run(start())


def test_tls_handshake_fails_at_once(broker: BrokerProcess) -> None:
    host, _, port = broker.bootstrap.rpartition(":")
    context = ssl.create_default_context()

    with socket.create_connection((host, int(port))) as raw, pytest.raises(ssl.SSLError) as failure:
        context.wrap_socket(raw, server_hostname="localhost")

    assert failure.value.reason == "SSLV3_ALERT_HANDSHAKE_FAILURE"


def test_librdkafka_is_told_that_there_is_no_tls(broker: BrokerProcess) -> None:
    told: list[str] = []
    settings = {"bootstrap.servers": broker.bootstrap, "security.protocol": "SSL"}
    producer = Producer(
        settings | {"error_cb": lambda error: told.append(str(error))}, logger=silent()
    )

    wait_until(lambda: producer.poll(0.1) == 0 and told != [], "an error is told")

    assert "handshake fail" in told[0]
