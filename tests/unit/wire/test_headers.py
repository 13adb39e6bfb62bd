"""Request and response headers, including the protocol's three exceptions."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as KioHeader1
from kio.schema.request_header.v2.header import RequestHeader as KioHeader2
from kio.serial import entity_writer

from odradek.model.errors import LocalProtocolViolation, RemoteProtocolViolation
from odradek.wire.apis import APIS
from odradek.wire.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    request_header_is_flexible,
    response_header_is_flexible,
)

HEADERS = st.builds(
    RequestHeader,
    st.just(3),
    st.integers(0, 12),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)


@given(HEADERS)
def test_header_round_trip_equals_kio(header: RequestHeader) -> None:
    raw = encode_request_header(header)
    kio: Any = KioHeader2 if header.api_version >= 9 else KioHeader1
    with io.BytesIO() as out:
        entity_writer(kio)(
            out,
            kio(
                request_api_key=header.api_key,
                request_api_version=header.api_version,
                correlation_id=header.correlation_id,
                client_id=header.client_id,
            ),
        )
        assert out.getvalue() == raw
    assert decode_request_header(memoryview(raw + b"body")) == (header, len(raw))


def test_client_id_has_a_two_byte_length_in_flexible_headers() -> None:
    assert encode_request_header(RequestHeader(3, 12, 7, "me")) == b"\0\3\0\x0c\0\0\0\7" + b"\0\2me" + b"\0"


def test_controlled_shutdown_0_has_no_client_id() -> None:
    raw = encode_request_header(RequestHeader(7, 0, 5, "dropped"))
    assert raw == b"\0\7\0\0\0\0\0\5"
    assert decode_request_header(memoryview(raw + b"\0\0\0\1")) == (RequestHeader(7, 0, 5, None), 8)
    assert len(encode_request_header(RequestHeader(7, 1, 5, None))) == 10


@pytest.mark.parametrize("version", range(6))
def test_api_versions_response_header_never_has_tags(version: int) -> None:
    assert not response_header_is_flexible(18, version)
    assert decode_response_header(memoryview(b"\0\0\0\x09\0"), 18, version) == (9, 4)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_headers_are_flexible_in_flexible_versions(api: object) -> None:
    for version in api.versions:  # type: ignore[attr-defined]
        flexible = version >= api.request.FLEXIBLE  # type: ignore[attr-defined]
        assert request_header_is_flexible(api.key, version) == flexible  # type: ignore[attr-defined]
        if api.key != 18:  # type: ignore[attr-defined]
            assert response_header_is_flexible(api.key, version) == flexible  # type: ignore[attr-defined]


def test_unknown_tags_in_headers_are_skipped() -> None:
    lead = b"\0\3\0\x0c\0\0\0\7\xff\xff"
    header, position = decode_request_header(memoryview(lead + b"\1\x05\2ab" + b"rest"))
    assert (header.client_id, position) == (None, len(lead) + 5)
    assert decode_response_header(memoryview(b"\0\0\0\7" + b"\1\x05\2ab"), 3, 12) == (7, 9)


def test_unknown_apis_and_versions_are_decoded() -> None:
    raw = b"\x03\xe8\0\x63\0\0\0\1\0\1x" + b"body"
    assert decode_request_header(memoryview(raw)) == (RequestHeader(1000, 99, 1, "x"), 11)
    unknown_version = b"\0\x12\0\x63\0\0\0\1\xff\xff" + b"\0" + b"body"
    assert decode_request_header(memoryview(unknown_version)) == (RequestHeader(18, 99, 1, None), 11)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\0\3\0\x0c\0\0\0\7\0",
        b"\0\3\0\x0c\0\0\0\7\0\5four",
        b"\0\3\0\x0c\0\0\0\7\0\2\xff\xff\0",
        b"\0\3\0\x0c\0\0\0\7\xff\xff",
        b"\0\3\0\x0c\0\0\0\7\xff\xff\5",
        b"\0\3\0\x0c\0\0\0\7\xff\xff\1\0\x7f",
        b"\0\3\0\x0c\0\0\0\7\xff\xff\1\xff\xff\xff\xff\xff\1\0",
    ],
)
def test_malformed_request_headers_are_rejected(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolViolation):
        decode_request_header(memoryview(raw))


@given(st.binary(max_size=40))
def test_arbitrary_bytes_decode_or_are_rejected(raw: bytes) -> None:
    for prefix in (b"", b"\0\3\0\x0c"):
        try:
            _, position = decode_request_header(memoryview(prefix + raw))
        except RemoteProtocolViolation:
            continue
        assert position <= len(prefix + raw)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0", b"\0\0\0\1", b"\0\0\0\1\1\1"])
def test_malformed_response_headers_are_rejected(raw: bytes) -> None:
    with pytest.raises(RemoteProtocolViolation):
        decode_response_header(memoryview(raw), 3, 12)


@pytest.mark.parametrize(
    "header",
    [
        RequestHeader(999, 0, 1, None),
        RequestHeader(3, 0, 1 << 31, None),
        RequestHeader(3, 0, 1, "x" * 40_000),
        RequestHeader(3, 0, 1, "\ud800"),
    ],
)
def test_headers_that_cannot_be_encoded_are_rejected(header: RequestHeader) -> None:
    with pytest.raises(LocalProtocolViolation):
        encode_request_header(header)
