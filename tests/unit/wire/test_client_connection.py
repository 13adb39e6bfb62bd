"""Client connections: correlation ids, matching of responses, and exchange with the server end."""

from __future__ import annotations

from typing import overload

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.wire.client_connection import ClientConnection, Response
from odradek.wire.server_connection import Request, ServerConnection


@overload
def transfer(parts: list[Part], to: ClientConnection) -> list[Response]: ...
@overload
def transfer(parts: list[Part], to: ServerConnection) -> list[Request]: ...
def transfer(parts: list[Part], to: ClientConnection | ServerConnection) -> list[Request] | list[Response]:
    raw = b"".join(parts)  # type: ignore[arg-type]
    to.receive_buffer()[: len(raw)] = raw
    return to.received(len(raw))


@given(st.lists(st.tuples(st.sampled_from([(0, 9), (3, 1), (18, 3), (1, 12)]), st.booleans()), max_size=6))
def test_client_and_server_ends_exchange_requests_and_responses(
    plan: list[tuple[tuple[int, int], bool]],
) -> None:
    client, server = ClientConnection(1000, "me"), ServerConnection(1000)
    for number, ((key, version), expects) in enumerate(plan):
        correlation_id, parts = client.request(key, version, [b"request", b"!"], expects_response=expects)
        (request,) = transfer(parts, server)
        assert (request.api_key, request.api_version, request.correlation_id) == (
            key,
            version,
            correlation_id,
        )
        assert bytes(request.frame[request.body_position :]) == b"request!"
        assert request.client_id == "me"
        assert client.in_flight == int(expects)
        if not expects:
            assert server.skip_response(request) == []
            continue
        (response,) = transfer(server.respond(request, [b"response %d" % number]), client)
        assert (response.api_key, response.api_version) == (key, version)
        assert response.correlation_id == correlation_id
        assert bytes(response.frame[response.body_position :]) == b"response %d" % number
    assert client.in_flight == 0


def test_correlation_ids_increase() -> None:
    client = ClientConnection(1000)
    assert [client.request(3, 1, [])[0] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_response_out_of_order_is_rejected() -> None:
    client = ClientConnection(1000)
    client.request(3, 1, [])
    client.request(3, 1, [])
    with pytest.raises(RemoteProtocolViolation, match=r"correlation id must be 0 \(API 3\), got 1"):
        transfer([b"\0\0\0\4\0\0\0\1"], client)


def test_response_without_request_is_rejected() -> None:
    with pytest.raises(RemoteProtocolViolation, match="without an outstanding request"):
        transfer([b"\0\0\0\4\0\0\0\0"], ClientConnection(1000))
