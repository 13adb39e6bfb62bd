"""Authentication of a connection: order of requests, refusals, lifetimes, re-authentication."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from odradek.broker.network.sasl_authenticator import SaslAuthenticator, SaslSettings
from odradek.broker.security.audit import AuditLog
from odradek.model.errors import ErrorCode
from odradek.security.principal import ANONYMOUS, user
from odradek.security.sasl.mechanism import SaslRefused
from odradek.wire.message_codecs import decoder, parts_encoder
from odradek.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.wire.server_connection import TOKEN_KEY

METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 3, 17, 18, 36
FRAME_BYTES_MAX = 100 * 1024 * 1024


class TwoSteps:
    """A mechanism with two tokens: any, then the name of the user; ``bad`` is refused."""

    is_token = False

    def __init__(self, expires_at_ms: int | None = None) -> None:
        self.expires_at_ms = expires_at_ms
        self.is_complete = False
        self.authorization_id = ""
        self._steps = 0

    def evaluate(self, response: bytes) -> bytes:
        self._steps += 1
        if response == b"bad":
            raise SaslRefused("Authentication failed: invalid credentials", "for the log")
        if self._steps == 2:
            self.is_complete, self.authorization_id = True, response.decode()
        return b"answer %d" % self._steps


def _joined(parts: list[Any]) -> bytes:
    return b"".join(parts)


class ManualClock:
    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def advance(self, duration_ms: int) -> None:
        self.now_ms += duration_ms

    def monotonic_ms(self) -> int:
        return self.now_ms

    def wall_ms(self) -> int:
        return self.now_ms + 5_000_000

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000

    def sleep_ms(self, duration_ms: int) -> Any:
        raise NotImplementedError


class Scenario:
    def __init__(self, harness: Any, reauthentication_ms: int = 0) -> None:
        self.harness, self.clock = harness, ManualClock()
        self.expires_at_ms: int | None = None
        self.delayed: list[tuple[float, Callable[[], None]]] = []
        self.dispatched: list[int] = []
        self.authenticated = 0
        settings = SaslSettings(
            ("TWO-STEPS", "OTHER"),
            lambda mechanism: TwoSteps(self.expires_at_ms),
            lambda mechanism: reauthentication_ms,
            lambda: 100,
            FRAME_BYTES_MAX,
        )
        authenticator = SaslAuthenticator(
            settings,
            self._dispatch,
            self.clock,
            self._call_later,
            AuditLog(self.clock),
        )
        authenticator.on_authenticated = self._on_authenticated
        self.session = harness.session
        self.session.handle_request = authenticator.handle

    def _on_authenticated(self) -> None:
        self.authenticated += 1

    def _dispatch(self, request: Any, session: Any) -> None:
        self.dispatched.append(request.api_key)
        session.send_response(request, [b"served"])

    def _call_later(self, delay_s: float, function: Callable[[], None]) -> Any:
        self.delayed.append((delay_s, function))

    def request(self, key: int, version: int, body: bytes = b"") -> bytes:
        """Send a request; return the body of the response, empty if there is none."""
        self.harness.connection.sent.clear()
        flexible = (
            b"\0" if (key == AUTHENTICATE and version == 2) or (key == API_VERSIONS and version >= 3) else b""
        )
        content = struct.pack(">hhih", key, version, 7, 1) + b"c" + flexible + body
        self.harness.receive(struct.pack(">i", len(content)) + content)
        responses = self.harness.connection.responses
        return responses[0][1] if responses else b""

    def handshake(self, mechanism: str = "TWO-STEPS", version: int = 1) -> SaslHandshakeResponse:
        body = _joined(parts_encoder(SaslHandshakeRequest, version)(SaslHandshakeRequest(mechanism)))
        response = self.request(HANDSHAKE, version, body)
        return decoder(SaslHandshakeResponse, version)(memoryview(response), 0)[0]

    def token(self, token: bytes, version: int = 1) -> SaslAuthenticateResponse | None:
        encode = parts_encoder(SaslAuthenticateRequest, version)
        body = _joined(encode(SaslAuthenticateRequest(token)))
        response = self.request(AUTHENTICATE, version, body)
        if version == 2:
            response = response[1:]  # the tags of the header
        return decoder(SaslAuthenticateResponse, version)(memoryview(response), 0)[0] if response else None

    def authenticate(self, name: str = "alice") -> SaslAuthenticateResponse:
        self.handshake()
        self.token(b"first")
        response = self.token(name.encode())
        assert response is not None
        return response

    def run_delayed(self) -> None:
        delayed, self.delayed = self.delayed, []
        for _, function in delayed:
            function()

    @property
    def is_closed(self) -> bool:
        return bool(self.harness.connection.closed)


@pytest.fixture
def scenario(harness: Any) -> Scenario:
    return Scenario(harness)


def test_client_is_served_once_it_is_authenticated(scenario: Scenario) -> None:
    assert scenario.request(API_VERSIONS, 3) == b"served"
    response = scenario.handshake()
    assert (response.error_code, response.mechanisms) == (0, ["TWO-STEPS", "OTHER"])
    first, second = scenario.token(b"first"), scenario.token(b"alice")
    assert first is not None
    assert second is not None
    assert (first.error_code, bytes(first.auth_bytes)) == (0, b"answer 1")
    assert (second.error_code, bytes(second.auth_bytes), second.session_lifetime_ms) == (0, b"answer 2", 0)
    assert (scenario.session.principal, scenario.authenticated) == (user("alice"), 1)
    assert scenario.request(METADATA, 1) == b"served"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_of_sasl_authenticate(scenario: Scenario, version: int) -> None:
    scenario.handshake()
    scenario.token(b"first", version)
    response = scenario.token(b"alice", version)
    assert response is not None
    assert response.error_code == 0
    assert scenario.session.principal == user("alice")


def test_tokens_without_headers_follow_handshake_version_0(scenario: Scenario) -> None:
    scenario.handshake(version=0)
    sent = scenario.harness.connection.sent
    for token, answer in ((b"first", b"answer 1"), (b"alice", b"answer 2")):
        sent.clear()
        scenario.harness.receive(struct.pack(">i", len(token)) + token)
        assert bytes(sent) == struct.pack(">i", len(answer)) + answer
    assert scenario.request(METADATA, 1) == b"served"


@pytest.mark.parametrize(
    ("steps", "key"),
    [
        ([], METADATA),
        ([], AUTHENTICATE),
        (["versions"], METADATA),
        (["versions"], API_VERSIONS),
        (["versions"], AUTHENTICATE),
        (["handshake"], METADATA),
        (["handshake"], API_VERSIONS),
        (["handshake"], HANDSHAKE),
        (["handshake", "token"], METADATA),
        (["handshake", "token"], HANDSHAKE),
        (["handshake"], TOKEN_KEY),
        ([], 99),
    ],
)
def test_any_other_request_closes_the_connection(scenario: Scenario, steps: list[str], key: int) -> None:
    run: dict[str, Callable[[], object]] = {
        "versions": lambda: scenario.request(API_VERSIONS, 3),
        "handshake": scenario.handshake,
        "token": lambda: scenario.token(b"first"),
    }
    for step in steps:
        run[step]()
    scenario.dispatched.clear()
    body = b"\0\x09TWO-STEPS" if key == HANDSHAKE else b"\0\0\0\5first"
    assert scenario.request(key, 1, body) == b""
    assert (scenario.is_closed, scenario.dispatched) == (True, [])
    assert scenario.session.principal == ANONYMOUS


def test_unsupported_version_of_api_versions_may_be_repeated(scenario: Scenario) -> None:
    assert scenario.request(API_VERSIONS, 99) == b"served"
    assert scenario.request(API_VERSIONS, 3) == b"served"
    assert scenario.handshake().error_code == 0


@pytest.mark.parametrize(("key", "version"), [(HANDSHAKE, 2), (AUTHENTICATE, 3)])
def test_unsupported_version_closes_the_connection(scenario: Scenario, key: int, version: int) -> None:
    if key == AUTHENTICATE:
        scenario.handshake()
    assert scenario.request(key, version, b"\0\0\0\0") == b""
    assert scenario.is_closed


def test_refusal_is_answered_after_the_delay_and_closes(scenario: Scenario) -> None:
    scenario.handshake()
    assert scenario.token(b"bad") is None
    assert [delay for delay, _ in scenario.delayed] == [0.1]
    assert not scenario.is_closed
    assert scenario.request(METADATA, 1) == b""  # nothing is read in the meantime
    scenario.run_delayed()
    ((_, body),) = scenario.harness.connection.responses
    response = decoder(SaslAuthenticateResponse, 1)(memoryview(body), 0)[0]
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: invalid credentials"
    assert (scenario.is_closed, scenario.session.principal, scenario.dispatched) == (True, ANONYMOUS, [])


def test_unsupported_mechanism_is_answered_with_the_enabled_ones(scenario: Scenario) -> None:
    body = b"\0\x06GSSAPI"
    assert scenario.request(HANDSHAKE, 1, body) == b""
    scenario.run_delayed()
    ((_, answer),) = scenario.harness.connection.responses
    response = decoder(SaslHandshakeResponse, 1)(memoryview(answer), 0)[0]
    assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert response.mechanisms == ["TWO-STEPS", "OTHER"]
    assert scenario.is_closed


def test_client_that_leaves_during_the_delay(scenario: Scenario) -> None:
    scenario.handshake()
    scenario.token(b"bad")
    scenario.session.abort()
    scenario.run_delayed()
    assert scenario.harness.connection.responses == []
    assert scenario.session.in_flight == 0


@pytest.mark.parametrize(
    ("limit_ms", "credential_ms", "lifetime_ms"),
    [(0, None, 0), (5000, None, 5000), (0, 700, 700), (5000, 700, 700), (500, 700, 500)],
)
def test_lifetime_of_a_session(
    harness: Any, limit_ms: int, credential_ms: int | None, lifetime_ms: int
) -> None:
    scenario = Scenario(harness, limit_ms)
    if credential_ms is not None:
        scenario.expires_at_ms = scenario.clock.wall_ms() + credential_ms
    assert scenario.authenticate().session_lifetime_ms == lifetime_ms
    scenario.clock.advance(max(lifetime_ms, 1))
    assert scenario.request(METADATA, 1) == b"served"
    scenario.clock.advance(1)
    assert (scenario.request(METADATA, 1) == b"served") is (lifetime_ms == 0)
    assert scenario.is_closed is (lifetime_ms != 0)


def test_expired_session_may_still_authenticate_again(harness: Any) -> None:
    scenario = Scenario(harness, 5000)
    scenario.authenticate()
    scenario.clock.advance(6000)
    assert scenario.authenticate().session_lifetime_ms == 5000
    assert scenario.request(METADATA, 1) == b"served"
    scenario.clock.advance(5001)
    assert scenario.request(METADATA, 1) == b""
    assert scenario.is_closed


def test_principal_cannot_change(harness: Any) -> None:
    scenario = Scenario(harness, 5000)
    scenario.authenticate("alice")
    scenario.clock.advance(2000)
    scenario.handshake()
    scenario.token(b"first")
    assert scenario.token(b"mallory") is None
    scenario.run_delayed()
    ((_, body),) = scenario.harness.connection.responses
    response = decoder(SaslAuthenticateResponse, 1)(memoryview(body), 0)[0]
    assert "from User:alice to User:mallory" in response.error_message
    assert (scenario.is_closed, scenario.session.principal) == (True, user("alice"))


def test_mechanism_cannot_change(harness: Any) -> None:
    scenario = Scenario(harness, 5000)
    scenario.authenticate()
    scenario.clock.advance(2000)
    assert scenario.request(HANDSHAKE, 1, b"\0\5OTHER") == b""
    scenario.run_delayed()
    assert scenario.is_closed


def test_second_authentication_within_a_second_goes_to_the_dispatcher(harness: Any) -> None:
    scenario = Scenario(harness, 5000)
    scenario.authenticate()
    scenario.clock.advance(2000)
    scenario.authenticate()
    scenario.clock.advance(999)
    assert scenario.request(HANDSHAKE, 1, b"\0\x09TWO-STEPS") == b"served"
    assert scenario.dispatched == [HANDSHAKE]


def test_no_request_is_served_during_re_authentication(harness: Any) -> None:
    scenario = Scenario(harness, 5000)
    scenario.authenticate()
    scenario.clock.advance(2000)
    scenario.handshake()
    assert scenario.request(METADATA, 1) == b""
    assert (scenario.is_closed, scenario.dispatched) == (True, [])


def test_text_that_is_no_mechanism_is_not_logged(
    scenario: Scenario, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that sends a token in the place of the mechanism must not find its password in the log."""
    caplog.set_level("WARNING", "odradek")
    scenario.request(HANDSHAKE, 1, b"\0\x0d\0alice\0secret")
    assert "unsupported mechanism of 13 characters" in caplog.text
    assert "secret" not in caplog.text
