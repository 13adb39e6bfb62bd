"""Every message that Apache Kafka brokers sent each other decodes, and encodes to the same bytes."""

from __future__ import annotations

import pytest
from tests.golden.cluster.recordings import API_BY_NAME, SCENARIOS, Decoded, messages

from odradek.wire.headers import RequestHeader, encode_request_header, response_header_is_flexible
from odradek.wire.message_codecs import encoder


def encode(message: Decoded) -> bytes:
    api, version = API_BY_NAME[message.recorded.api], message.recorded.version
    if isinstance(message.header, RequestHeader):
        return encode_request_header(message.header) + encoder(api.request, version)(message.body)
    tags = b"\0" if response_header_is_flexible(api.key, version) else b""
    return message.header.to_bytes(4, "big") + tags + encoder(api.response, version)(message.body)


@pytest.mark.parametrize(("ibp", "scenario"), SCENARIOS)
def test_recorded_messages_encode_to_the_same_bytes(ibp: str, scenario: str) -> None:
    recorded = messages(ibp, scenario)
    assert recorded
    for message in recorded:
        assert message.end == len(message.recorded.frame), message.recorded.line
        assert encode(message).hex() == message.recorded.frame.hex(), message.body


@pytest.mark.parametrize(("ibp", "scenario"), SCENARIOS)
def test_headers_agree_with_the_timeline(ibp: str, scenario: str) -> None:
    correlation_ids = {}
    for message in messages(ibp, scenario):
        recorded = message.recorded
        if isinstance(message.header, RequestHeader):
            assert API_BY_NAME[recorded.api].key == message.header.api_key
            assert recorded.version == message.header.api_version
            assert recorded.source in (message.header.client_id or "").split("-")
            correlation_ids[recorded.number] = message.header.correlation_id
        else:
            assert message.header == correlation_ids.get(recorded.number, message.header)
