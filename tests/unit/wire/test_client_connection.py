"""Requests get correlation ids, answers are matched to them; both ends understand each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import RemoteProtocolViolation
from odradek.ports.files import Part
from odradek.wire.client_connection import ClientConnection, Response
from odradek.wire.server_connection import Request, ServerConnection


def pass_on(parts: list[Part], to: ClientConnection | ServerConnection) -> list[Request] | list[Response]:
    raw = b"".join(parts)  # type: ignore[arg-type]
    to.receive_buffer()[: len(raw)] = raw
    return to.received(len(raw))


@given(st.lists(st.tuples(st.sampled_from([(0, 9), (3, 1), (18, 3), (1, 12)]), st.booleans()), max_size=6))
def test_both_ends_of_a_connection_agree(plan: list[tuple[tuple[int, int], bool]]) -> None:
    client, server = ClientConnection(1000, "me"), ServerConnection(1000)
    for number, ((key, version), expects) in enumerate(plan):
        correlation_id, parts = client.request(key, version, [b"ask", b"!"], expects_response=expects)
        (request,) = pass_on(parts, server)
        assert (request.api_key, request.api_version, request.correlation_id) == (
            key,
            version,
            correlation_id,
        )
        assert bytes(request.frame[request.body_position :]) == b"ask!"
        assert request.client_id == "me"
        assert client.in_flight == int(expects)
        if not expects:
            assert server.skip_response(request) == []
            continue
        (answer,) = pass_on(server.respond(request, [b"tell %d" % number]), client)
        assert answer[:3] == (key, version, correlation_id)
        assert bytes(answer.frame[answer.body_position :]) == b"tell %d" % number
    assert client.in_flight == 0


def test_correlation_ids_differ() -> None:
    client = ClientConnection(1000)
    assert [client.request(3, 1, [])[0] for _ in range(5)] == [0, 1, 2, 3, 4]


def test_an_answer_out_of_turn_is_refused() -> None:
    client = ClientConnection(1000)
    client.request(3, 1, [])
    client.request(3, 1, [])
    with pytest.raises(RemoteProtocolViolation, match="answer 1 came where 0 was due"):
        pass_on([b"\0\0\0\4\0\0\0\1"], client)


def test_an_answer_nobody_asked_for_is_refused() -> None:
    with pytest.raises(RemoteProtocolViolation, match="nobody asked"):
        pass_on([b"\0\0\0\4\0\0\0\0"], ClientConnection(1000))
