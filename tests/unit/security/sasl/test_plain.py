"""SASL PLAIN on both sides, and its users."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.secret import Secret
from odradek.security.sasl import plain, plain_users
from odradek.security.sasl.mechanism import InvalidCredentials, SaslClient, SaslRefused, SaslServer
from odradek.security.sasl.plain import PlainClient, PlainServer
from odradek.security.sasl.plain_users import PlainUsers, parse_users

KEY = bytes(range(32))
USERS = PlainUsers({"alice": Secret("wonder"), "bob": Secret("b:\u00fc ")}, KEY)


def server() -> PlainServer:
    return PlainServer(USERS.verify)


def test_sides_follow_the_protocols() -> None:
    sides: tuple[SaslServer, SaslClient] = server(), PlainClient("a", Secret("b"))
    assert not any(side.is_complete for side in sides)


@pytest.mark.parametrize("message", [b"\0alice\0wonder", b"alice\0alice\0wonder"])
def test_authentication(message: bytes) -> None:
    side = server()
    assert not side.is_complete
    assert side.authorization_id == ""
    assert side.evaluate(message) == b""
    assert (side.is_complete, side.authorization_id) == (True, "alice")
    assert (side.expires_at_ms, side.is_token) == (None, False)


def refused_then_over(message: bytes) -> SaslRefused:
    side = server()
    with pytest.raises(SaslRefused) as refused:
        side.evaluate(message)
    assert not side.is_complete
    with pytest.raises(SaslRefused):
        side.evaluate(b"\0alice\0wonder")
    assert not side.is_complete
    return refused.value


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"alice\0wonder", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0wonder\0more\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
    ],
)
def test_malformed_messages_are_refused_as_kafka_does(message: bytes, text: str) -> None:
    assert str(refused_then_over(message)) == text


@pytest.mark.parametrize(
    "message",
    [b"\0alice\0\xff", b"\xff\0alice\0wonder", b"\0alice\0" + b"x" * plain.MESSAGE_SIZE_MAX],
)
def test_bytes_that_are_no_message_get_the_standard_refusal(message: bytes) -> None:
    refusal = refused_then_over(message)
    assert isinstance(refusal, InvalidCredentials)
    assert "due to invalid credentials with SASL mechanism PLAIN" in str(refusal)
    assert refusal.detail


@pytest.mark.parametrize(
    "message",
    [b"\0alice\0wrong", b"\0alice\0wonderx", b"\0carol\0wonder", b"\0Alice\0wonder", b"bob\0alice\0x"],
)
def test_unknown_users_and_wrong_passwords_are_alike(message: bytes) -> None:
    side = server()
    with pytest.raises(SaslRefused) as refused:
        side.evaluate(message)
    assert (str(refused.value), refused.value.detail) == (plain.INVALID_PASSWORD, "")
    assert not side.is_complete


def test_another_authorization_id_is_refused() -> None:
    side = server()
    with pytest.raises(SaslRefused, match="authorization id that is different from username"):
        side.evaluate(b"bob\0alice\0wonder")
    assert not side.is_complete


def test_a_second_message_is_refused() -> None:
    side = server()
    side.evaluate(b"\0alice\0wonder")
    with pytest.raises(SaslRefused):
        side.evaluate(b"\0bob\0x")


def test_client() -> None:
    with pytest.raises(SaslRefused):
        PlainClient("bob", Secret("x")).evaluate(b"")
    client = PlainClient("bob", Secret("b:\u00fc "))
    side = server()
    answer = side.evaluate(client.start())
    assert not client.is_complete
    assert client.evaluate(answer) is None
    assert client.is_complete
    assert side.authorization_id == "bob"
    with pytest.raises(SaslRefused):
        client.evaluate(b"")
    with pytest.raises(SaslRefused):
        client.start()


def test_client_refuses_a_challenge() -> None:
    client = PlainClient("a", Secret("b"))
    client.start()
    for challenge in (b"more", b""):
        with pytest.raises(SaslRefused):
            client.evaluate(challenge)
        assert not client.is_complete


@pytest.mark.parametrize(("username", "password"), [("", "b"), ("a", ""), ("a\0", "b"), ("a", "hunter2\0")])
def test_client_refuses_what_cannot_be_sent(username: str, password: str) -> None:
    with pytest.raises(ValueError, match="authorization id"):
        PlainClient("a", Secret("b"), "c\0")
    with pytest.raises(ValueError, match="without NUL") as refused:
        PlainClient(username, Secret(password))
    assert "hunter2" not in str(refused.value)


@given(st.text(min_size=1), st.text(min_size=1), st.booleans())
def test_both_sides_round_trip(username: str, password: str, names_itself: bool) -> None:
    if "\0" in username + password:
        return
    users = PlainUsers({username: Secret(password)}, KEY)
    side = PlainServer(users.verify)
    client = PlainClient(username, Secret(password), username if names_itself else "")
    assert client.evaluate(side.evaluate(client.start())) is None
    assert side.authorization_id == username


def test_no_user_has_the_digest_of_unknown_users() -> None:
    assert not PlainUsers({}, KEY).verify("", "")
    assert "alice" in USERS
    assert "carol" not in USERS
    assert len(USERS) == 2
    with pytest.raises(ValueError, match="at least 32"):
        PlainUsers({}, KEY[:31])


def test_users_keep_no_password() -> None:
    assert "wonder" not in repr(vars(USERS))
    assert USERS.verify("alice", "wonder")


def test_users_file() -> None:
    text = "\ufeff# users\n\nalice:wonder\r\n bob : p:w \n#carol:x\ndora:#x\n"
    users = {name: password.reveal() for name, password in parse_users(text).items()}
    assert users == {"alice": "wonder", "bob": " p:w ", "dora": "#x"}


@pytest.mark.parametrize("line", ["hunter2", "a:", ":hunter2", "  :hunter2", "a:hunter2\0"])
def test_malformed_lines_of_a_users_file(line: str) -> None:
    with pytest.raises(ValueError, match="line 2 of the users file must be name:password") as refused:
        parse_users(f"x:y\n{line}\n")
    assert "hunter2" not in str(refused.value)


def test_a_user_is_listed_once() -> None:
    with pytest.raises(ValueError, match=r"line 2 .* repeats"):
        parse_users("a:b\na :c")


def test_users_file_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_users, "FILE_LENGTH_MAX", 3)
    assert parse_users("a:b")
    with pytest.raises(ValueError, match="at most 3"):
        parse_users("a:b\n")


def test_refusal_of_a_reauthentication_says_so() -> None:
    refusal = InvalidCredentials("PLAIN", "x")
    assert refusal.message_on_reauthentication == (
        "Authentication failed during re-authentication due to invalid credentials with SASL mechanism PLAIN"
    )
