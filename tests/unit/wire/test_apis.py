"""The API table equals Kafka 3.9's; encoding of ApiVersions."""

from __future__ import annotations

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.apis import API_BY_KEY, APIS
from odradek.wire.headers import decode_request_header
from odradek.wire.message_codecs import decoder, encoder
from odradek.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from odradek.wire.server_connection import ServerConnection

LAST = {
    **{0: 11, 1: 17, 2: 9, 3: 12, 4: 7, 5: 4, 6: 8, 7: 3, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5},
    **{15: 5, 16: 5, 17: 1, 18: 4, 19: 7, 20: 6, 21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 4, 27: 1, 28: 4},
    **{29: 3, 30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 4, 36: 2, 37: 3, 38: 3, 39: 2, 40: 2, 41: 3, 42: 2},
    **{43: 2, 44: 1, 45: 0, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 56: 3, 57: 1, 60: 1, 61: 0, 65: 0},
    **{66: 1, 67: 0},
}


def test_versions_are_those_of_kafka_3_9() -> None:
    assert {api.key: api.versions for api in APIS} == {key: range(last + 1) for key, last in LAST.items()}


def test_message_classes_agree_with_the_table() -> None:
    for api in APIS:
        assert API_BY_KEY[api.key] is api
        assert api.request.__name__ == f"{api.name}Request"
        assert api.response.__name__ == f"{api.name}Response"
        assert api.request.VERSIONS == api.response.VERSIONS
        assert api.flexible == api.request.FLEXIBLE == api.response.FLEXIBLE
    assert [api.key for api in APIS] == sorted(LAST)


def test_unknown_api_versions_version_gets_a_version_0_response() -> None:
    raw = b"\0\x12\0\x63\0\0\0\7\0\2me\0" + b"whatever version 99 holds"
    header, _ = decode_request_header(memoryview(raw))
    assert (header.api_version, header.correlation_id, header.client_id) == (99, 7, "me")
    versions = API_BY_KEY[18].versions
    body = encoder(ApiVersionsResponse, 0)(
        ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [ApiVersion(18, versions[0], versions[-1])])
    )
    assert body == b"\0\x23" + b"\0\0\0\1" + b"\0\x12\0\0\0\4"
    connection = ServerConnection(1000)
    frame = len(raw).to_bytes(4, "big") + raw
    connection.receive_buffer()[: len(frame)] = frame
    (request,) = connection.received(len(frame))
    assert connection.respond(request, [body]) == [b"\0\0\0\x10" + b"\0\0\0\7" + body]


@pytest.mark.parametrize("version", [3, 4])
def test_features_are_tagged_fields_of_the_body(version: int) -> None:
    plain = ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)])
    raw = encoder(ApiVersionsResponse, version)(plain)
    assert raw == b"\0\0" + b"\2" + b"\0\x12\0\0\0\4\0" + b"\0\0\0\0" + b"\0"
    featured = ApiVersionsResponse(
        api_keys=[ApiVersion(18, 0, 4)],
        supported_features=[SupportedFeatureKey("metadata.version", 1, 20)],
        finalized_features_epoch=0,
        finalized_features=[FinalizedFeatureKey("metadata.version", 20, 20)],
        zk_migration_ready=True,
    )
    raw = encoder(ApiVersionsResponse, version)(featured)
    assert decoder(ApiVersionsResponse, version)(memoryview(raw), 0) == (featured, len(raw))


def test_api_versions_requests_of_old_and_new_clients() -> None:
    assert decoder(ApiVersionsRequest, 0)(memoryview(b""), 0) == (ApiVersionsRequest(), 0)
    raw = memoryview(b"\x0blibrdkafka" + b"\x072.16.0" + b"\0")
    request, end = decoder(ApiVersionsRequest, 3)(raw, 0)
    assert (request.client_software_name, request.client_software_version) == ("librdkafka", "2.16.0")
    assert end == len(raw)
