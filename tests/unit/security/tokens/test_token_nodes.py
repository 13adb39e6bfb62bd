"""Delegation tokens as znodes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.principal import KafkaPrincipal, user
from odradek.security.tokens import token_nodes
from odradek.security.tokens.token_information import TokenInformation
from odradek.security.tokens.token_nodes import decode_change, decode_token, encode_change, encode_token

TOKEN = TokenInformation("tid", user("a b~*+"), user("b"), (user("c"), user("CN=x,O=y")), 1, 3, 2)
FIELDS: dict[str, Any] = {
    "version": 3,
    "owner": "User%3Aa%20b%7E%2A%2B",
    "tokenRequester": "User%3Ab",
    "renewers": ["User%3Ac", "User%3ACN%3Dx%2CO%3Dy"],
    "issueTimestamp": 1,
    "maxTimestamp": 3,
    "expiryTimestamp": 2,
    "tokenId": "tid",
}


def test_fields_are_those_of_kafka() -> None:
    assert json.loads(encode_token(TOKEN)) == FIELDS
    assert decode_token(json.dumps(FIELDS).encode()) == TOKEN
    assert b'{"version":3,"owner":' in encode_token(TOKEN)


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_have_the_owner_as_requester(version: int) -> None:
    fields = {**FIELDS, "version": version}
    del fields["tokenRequester"]
    assert decode_token(json.dumps(fields).encode()) == TOKEN._replace(requester=TOKEN.owner)


@pytest.mark.parametrize(
    "change",
    [
        {"version": 0},
        {"version": 4},
        {"version": "3"},
        {"version": True},
        {"owner": None},
        {"owner": ""},
        {"owner": "alice"},
        {"owner": "%3Aalice"},
        {"owner": 5},
        {"tokenRequester": None},
        {"renewers": None},
        {"renewers": "User:a"},
        {"renewers": [5]},
        {"renewers": ["a"]},
        {"issueTimestamp": "1"},
        {"maxTimestamp": None},
        {"expiryTimestamp": 1.5},
        {"tokenId": ""},
        {"tokenId": 5},
    ],
)
def test_malformed_fields(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"got|must be"):
        decode_token(json.dumps({**FIELDS, **change}).encode())


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_other_data(data: bytes) -> None:
    with pytest.raises(ValueError, match="delegation token must be"):
        decode_token(data)


def test_size_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode_token(TOKEN)
    monkeypatch.setattr(token_nodes, "SIZE_MAX", len(data) - 1)
    with pytest.raises(ValueError, match="bytes"):
        decode_token(data)


def test_changes() -> None:
    assert decode_change(encode_change("tid")) == "tid"
    with pytest.raises(ValueError, match="utf-8"):
        decode_change(b"\xff")


PRINCIPALS = st.builds(KafkaPrincipal, st.sampled_from(["User", "Group"]), st.text())


@given(PRINCIPALS, PRINCIPALS, st.lists(PRINCIPALS, max_size=3), st.integers(0, 2**63 - 1))
def test_tokens_round_trip(
    owner: KafkaPrincipal, requester: KafkaPrincipal, renewers: list[KafkaPrincipal], timestamp: int
) -> None:
    token = TokenInformation("x", owner, requester, tuple(renewers), timestamp, timestamp, timestamp)
    assert decode_token(encode_token(token)) == token


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_token(data)
