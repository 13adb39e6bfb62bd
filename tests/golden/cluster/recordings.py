"""The recorded scenarios, read once, with their messages decoded."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.interbroker.timeline import Message, ZnodeWrite, parse_timeline

from odradek.wire.apis import APIS
from odradek.wire.headers import RequestHeader, decode_request_header, decode_response_header
from odradek.wire.message_codecs import decoder

HERE = Path(__file__).parent
API_BY_NAME = {api.name: api for api in APIS}
SCENARIOS = sorted((path.parent.name, path.stem) for path in HERE.glob("*/*.txt") if path.stem != "znodes")
"""Inter-broker protocol version and scenario."""


class Decoded(NamedTuple):
    """A recorded message, its header (of a response: the correlation id) and its body."""

    recorded: Message
    header: RequestHeader | int
    body: Any
    end: int
    """Position after the body."""


@cache
def events(ibp: str, scenario: str) -> tuple[Message | ZnodeWrite, ...]:
    return tuple(parse_timeline((HERE / ibp / f"{scenario}.txt").read_text(encoding="utf-8")))


@cache
def messages(ibp: str, scenario: str) -> tuple[Decoded, ...]:
    """Return the messages whose bytes were kept."""
    return tuple(
        decode(event) for event in events(ibp, scenario) if isinstance(event, Message) and event.frame
    )


def writes(ibp: str, scenario: str) -> list[ZnodeWrite]:
    return [event for event in events(ibp, scenario) if isinstance(event, ZnodeWrite)]


def requests(ibp: str, scenario: str, api: str) -> list[Decoded]:
    return [
        message
        for message in messages(ibp, scenario)
        if message.recorded.api == api and message.recorded.kind == "request"
    ]


def decode(message: Message) -> Decoded:
    api, frame = API_BY_NAME[message.api], memoryview(message.frame)
    if message.kind == "request":
        header, start = decode_request_header(frame)
        body, end = decoder(api.request, message.version)(frame, start)
        return Decoded(message, header, body, end)
    correlation_id, start = decode_response_header(frame, api.key, message.version)
    body, end = decoder(api.response, message.version)(frame, start)
    return Decoded(message, correlation_id, body, end)
