"""Clients under test: each sends a record and reads it back, over a secured connection."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import abc as aiokafka_abc
from tests.support.secured_broker import SecuredListeners, password_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

TIMEOUT_S: Final = 20
MESSAGE: Final = b"secured record"

Exchange = Callable[[SecuredListeners, str, str, "str | None", str, "str | None"], bytes]
"""Sends and reads: broker, topic, protocol, mechanism, user, token; returns the value that was read."""


class Refused(Exception):
    """Raised when a client is not let in; the text is the client's."""


def odradek_blocking(
    broker: SecuredListeners, topic: str, protocol: str, mechanism: str | None, user: str, token: str | None
) -> bytes:
    from odradek import Consumer, Producer

    options = _our_options(broker, protocol, mechanism, user, token)
    with Producer(options, max_block_ms=TIMEOUT_S * 1000) as producer:
        producer.send(topic, MESSAGE).result(TIMEOUT_S)
    with Consumer(options, auto_offset_reset="earliest", group_id=f"group-{uuid.uuid4()}") as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            return bytes(record.value or b"")
    raise AssertionError("no record")


def odradek_asyncio(
    broker: SecuredListeners, topic: str, protocol: str, mechanism: str | None, user: str, token: str | None
) -> bytes:
    from odradek.aio import Consumer, Producer

    options = _our_options(broker, protocol, mechanism, user, token)

    async def exchange() -> bytes:
        async with Producer(options, max_block_ms=TIMEOUT_S * 1000) as producer:
            await (await producer.send(topic, MESSAGE))
        group = f"group-{uuid.uuid4()}"
        async with Consumer(options, auto_offset_reset="earliest", group_id=group) as consumer:
            consumer.subscribe([topic])
            async for record in consumer:
                return bytes(record.value or b"")
        raise AssertionError("no record")

    return asyncio.run(exchange())


def _our_options(
    broker: SecuredListeners, protocol: str, mechanism: str | None, user: str, token: str | None
) -> dict[str, Any]:
    options = broker.options(protocol, mechanism, user)
    if mechanism == "OAUTHBEARER":
        path = broker.directory / f"token-{uuid.uuid4()}"
        path.write_text(token or "")
        options["sasl.oauthbearer.token.endpoint.url"] = f"file:{path}"
    return options


def confluent(
    broker: SecuredListeners, topic: str, protocol: str, mechanism: str | None, user: str, token: str | None
) -> bytes:
    from confluent_kafka import Consumer, Producer

    options = broker.options(protocol, mechanism, user)
    problems: list[str] = []
    options["error_cb"] = lambda error: problems.append(str(error))
    if mechanism == "OAUTHBEARER":
        options["oauth_cb"] = lambda _: (token, time.time() + 3600)
    producer = Producer(options | {"message.timeout.ms": 6000})
    failures: list[Any] = []
    producer.produce(topic, MESSAGE, on_delivery=lambda error, _: failures.append(error))
    producer.flush(TIMEOUT_S)
    if failures != [None]:
        raise Refused(f"{failures} {problems}")
    consumer = Consumer(options | {"group.id": f"group-{uuid.uuid4()}", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        message = consumer.poll(TIMEOUT_S)
        if message is None or message.error():
            raise Refused(f"{message and message.error()} {problems}")
        return bytes(message.value() or b"")
    finally:
        consumer.close()


def kafka_python(
    broker: SecuredListeners, topic: str, protocol: str, mechanism: str | None, user: str, token: str | None
) -> bytes:
    options = _python_options(broker, protocol, mechanism, user)
    if mechanism == "OAUTHBEARER":

        class Provider(AbstractTokenProvider):
            def token(self) -> str:
                return token or ""

        options["sasl_oauth_token_provider"] = Provider()
    producer = KafkaProducer(**options, max_block_ms=TIMEOUT_S * 1000)
    try:
        producer.send(topic, MESSAGE).get(TIMEOUT_S)
    finally:
        producer.close(1)
    consumer = KafkaConsumer(
        topic,
        **options,
        auto_offset_reset="earliest",
        group_id=f"group-{uuid.uuid4()}",
        consumer_timeout_ms=TIMEOUT_S * 1000,
    )
    try:
        return bytes(next(iter(consumer)).value)
    finally:
        consumer.close()


def aiokafka(
    broker: SecuredListeners, topic: str, protocol: str, mechanism: str | None, user: str, token: str | None
) -> bytes:
    options = _python_options(broker, protocol, mechanism, user)
    if (path := options.pop("ssl_cafile", None)) is not None:
        options["ssl_context"] = ssl.create_default_context(cafile=path)
    if mechanism == "OAUTHBEARER":

        class Provider(aiokafka_abc.AbstractTokenProvider):
            async def token(self) -> str:
                return token or ""

        options["sasl_oauth_token_provider"] = Provider()

    async def exchange() -> bytes:
        producer = AIOKafkaProducer(**options, request_timeout_ms=TIMEOUT_S * 1000)
        await producer.start()
        try:
            await producer.send_and_wait(topic, MESSAGE)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(
            topic, **options, auto_offset_reset="earliest", group_id=f"group-{uuid.uuid4()}"
        )
        await consumer.start()
        try:
            return bytes((await consumer.getone()).value)
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(exchange(), TIMEOUT_S))


def _python_options(
    broker: SecuredListeners, protocol: str, mechanism: str | None, user: str
) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap(protocol),
        "security_protocol": protocol,
    }
    if protocol in {"SSL", "SASL_SSL"}:
        options["ssl_cafile"] = broker.files["authority"]
    if mechanism is not None:
        options["sasl_mechanism"] = mechanism
    if mechanism is not None and mechanism != "OAUTHBEARER":
        options |= {"sasl_plain_username": user, "sasl_plain_password": password_of(user)}
    return options


def kcat(
    broker: SecuredListeners, topic: str, protocol: str, mechanism: str | None, user: str, token: str | None
) -> bytes:
    del token  # kcat only makes unsecured tokens, which are not accepted
    program = shutil.which("kcat")
    assert program is not None
    options = broker.options(protocol, mechanism, user) | {"message.timeout.ms": 6000}
    arguments = [part for name, value in options.items() for part in ("-X", f"{name}={value}")]
    sent = subprocess.run(
        [program, "-P", "-t", topic, *arguments], input=MESSAGE, capture_output=True, timeout=60, check=False
    )
    if sent.returncode != 0:
        raise Refused(sent.stderr.decode())
    read = subprocess.run(
        [program, "-C", "-t", topic, "-o", "beginning", "-c", "1", "-e", *arguments],
        capture_output=True,
        timeout=60,
        check=False,
    )
    return read.stdout.rstrip(b"\n")


CLIENTS: Final[dict[str, Exchange]] = {
    "odradek": odradek_blocking,
    "odradek.aio": odradek_asyncio,
    "confluent-kafka": confluent,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
    "kcat": kcat,
}
