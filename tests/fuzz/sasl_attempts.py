"""Attempts to get in through a SASL listener without a password: valid, mutated and random frames.

Each attempt ends with a Metadata request, whose response would show that its sender was let in.
"""

from __future__ import annotations

import base64
import json
import random
import struct
from collections.abc import Callable

from tests.fuzz.control_requests import OwnBroker
from tests.fuzz.conversation import Conversation, Ended, frames_of
from tests.fuzz.mutations import mutate
from tests.fuzz.values import EDGES, RequestGenerator
from tests.support.raw_connection import METADATA, header_v1
from tests.support.secured_connection import handshake_frame, token_frame

from odradek.wire.apis import APIS

API_VERSIONS = 18
SENTINEL = 2**31 - 9
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
NAMES = ("alice", "bob", "nobody", "", "=2C", "a=2Cb", "=", "\0", "ä" * 300, "a" * 70_000)
FRAME_BYTES_MAX = 512 * 1024
"""Default of ``sasl.server.max.receive.size``."""

Step = Callable[[Conversation, random.Random], None]


class LetIn(AssertionError):
    """Raised when a client was served that had not authenticated."""


def play(conversation: Conversation, rng: random.Random) -> bool:
    """Make one attempt. Return whether it was left half done, for the broker to close the connection."""
    try:
        for step in _steps(rng):
            step(conversation, rng)
        if rng.random() < 0.03:
            conversation.send(_sized(handshake_frame("PLAIN"))[: rng.randrange(1, 12)])
            return True
        conversation.send(_sized(header_v1(METADATA, 1, SENTINEL) + struct.pack(">i", 0)))
        conversation.finish_sending()
    except Ended:
        pass
    received = frames_of(conversation.rest())
    conversation.answers += len(received)
    if any(frame[:4] == struct.pack(">i", SENTINEL) for frame in received):
        raise LetIn("a Metadata request was answered without authentication")
    return False


def _steps(rng: random.Random) -> list[Step]:
    """Choose steps in their order, or in any."""
    steps: list[Step] = []
    if rng.random() < 0.4:
        steps.append(_api_versions)
    if rng.random() < 0.85:
        steps += [_mechanism_steps, *rng.choices(_TOKENS, k=rng.randrange(3))]
    steps += rng.choices(_OTHERS, k=rng.choice([0, 0, 0, 1, 2]))
    if rng.random() < 0.15:
        rng.shuffle(steps)
    return steps


def _sized(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


def _maybe_mutated(frame: bytes, rng: random.Random, share: float = 0.3) -> bytes:
    return mutate(frame, rng) if rng.random() < share else frame


def _api_versions(conversation: Conversation, rng: random.Random) -> None:
    version = rng.choice([0, 1, 2, 3, 4, 5, 99, -1])
    tail = b"\0\x05fuzz\x021\0" if version in {3, 4} else b""
    frame = header_v1(API_VERSIONS, version) + tail
    conversation.send(_sized(_maybe_mutated(frame, rng, 0.2)))


def _mechanism_steps(conversation: Conversation, rng: random.Random) -> None:
    """Choose a mechanism, then send tokens of its form."""
    mechanism = rng.choice(MECHANISMS)
    version = rng.choice([0, 1, 1])
    name = mechanism if rng.random() < 0.9 else rng.choice(["", "plain", "GSSAPI", "X" * 30_000, "\0"])
    frame = handshake_frame(name, version)
    mutated = _maybe_mutated(frame, rng, 0.1)
    conversation.send(_sized(mutated))
    if mutated != frame or name != mechanism:
        return
    conversation.receive_frame()
    if mechanism.startswith("SCRAM"):
        _scram(conversation, rng, version)
    else:
        token = _plain_token(rng) if mechanism == "PLAIN" else _bearer_token(rng)
        _send_token(conversation, rng, version, _maybe_mutated(token, rng))


def _send_token(conversation: Conversation, rng: random.Random, version: int, token: bytes) -> bool:
    """Send a token with or without a request header; return whether the request is valid."""
    frame = token if version == 0 else token_frame(token, 1, rng.choice([0, 1]))
    mutated = _maybe_mutated(frame, rng, 0.2)
    conversation.send(_sized(mutated))
    return mutated == frame


def _scram(conversation: Conversation, rng: random.Random, version: int) -> None:
    """Send both messages of SCRAM; the proof of the second is wrong."""
    user = rng.choice(NAMES)
    extensions = rng.choice(["", "", ",tokenauth=true", ",tokenauth=false", ",x=1"])
    first = f"{rng.choice(['n', 'n', 'n', 'y', 'p=x'])},{rng.choice(['', '', 'a=bob'])},n={user},r=nonce"
    first = first.removesuffix("nonce") + rng.randbytes(9).hex() + extensions
    is_valid = _send_token(conversation, rng, version, _maybe_mutated(first.encode(), rng, 0.2))
    if not is_valid:
        return
    answer = conversation.receive_frame()
    start = answer.find(b"r=")
    if start < 0:
        return
    nonce = answer[start + 2 :].partition(b",")[0]
    proof = base64.b64encode(rng.randbytes(rng.choice([32, 64, 0, 1000])))
    binding = rng.choice([b"biws", b"biws", b"eSws", b""])
    final = b"c=" + binding + b",r=" + nonce + b",p=" + proof
    _send_token(conversation, rng, version, _maybe_mutated(final, rng))


def _plain_token(rng: random.Random) -> bytes:
    parts = [
        rng.choice(["", "", "alice", "x" * 9000]),
        rng.choice(NAMES),
        rng.choice(["", "wrong", "\0", "p"]),
    ]
    return "\0".join(parts + [""] * rng.choice([0, 0, 0, 1, 5000])).encode()


def _bearer_token(rng: random.Random) -> bytes:
    algorithm = rng.choice(["none", "RS256", "HS256", "ES256", "", 1, None, ["RS256"]])
    header = {"alg": algorithm, "kid": rng.choice(["test-key", "other", 7, None, "k" * 5000])}
    claims = {
        "sub": rng.choice(["alice", "", 1, None, ["alice"]]),
        "iss": rng.choice(["https://issuer.example", "", 5]),
        "aud": rng.choice(["kafka", ["kafka"], {}, None]),
        "exp": rng.choice([*EDGES, 4e9, 1e400, "soon", None]),
        "iat": rng.choice([0, 1.5, -1e308, "x"]),
    }
    signature = rng.randbytes(rng.choice([0, 64, 256, 5000]))
    parts = [json.dumps(header).encode(), _json(claims, rng), signature]
    token = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    separator = rng.choice([b"\x01", b"\x01", b"\x01", b"\x00"])
    pairs = [b"auth=Bearer " + token] + [b"ext=value"] * rng.choice([0, 0, 1, 2000])
    return separator.join([rng.choice([b"n,,", b"n,a=bob,", b"y,,", b""]), *pairs, b"", b""])


def _json(claims: object, rng: random.Random) -> bytes:
    if rng.random() < 0.1:
        depth = rng.choice([10, 1000, 40_000])
        return b"[" * depth + b"]" * depth
    return json.dumps(claims).encode()


def _stray_token(conversation: Conversation, rng: random.Random) -> None:
    token = rng.choice([_plain_token, _bearer_token, _random_bytes])(rng)
    _send_token(conversation, rng, rng.choice([0, 1]), token)


def _random_bytes(rng: random.Random) -> bytes:
    return rng.randbytes(rng.choice([0, 1, 3, 40, 4000]))


def _empty_token(conversation: Conversation, rng: random.Random) -> None:
    _send_token(conversation, rng, rng.choice([0, 1]), b"")


def _request(conversation: Conversation, rng: random.Random) -> None:
    """Send a request of any API, which must not be served."""
    api = rng.choice(APIS)
    maker = RequestGenerator(rng, [], OwnBroker(0, "127.0.0.1", 1))
    frame = maker.frame(api, rng.choice(api.versions), rng.randrange(10))
    conversation.send(_sized(_maybe_mutated(frame, rng)))


def _oversized(conversation: Conversation, rng: random.Random) -> None:
    """Announce a frame above the limit, or a negative one."""
    size = rng.choice([FRAME_BYTES_MAX + 1, 2**31 - 1, -1, -(2**31), 100 << 20])
    conversation.send(struct.pack(">i", size) + rng.randbytes(rng.choice([0, 100, 9000])))


def _largest(conversation: Conversation, rng: random.Random) -> None:
    """Send a frame of the largest size that is accepted, with zeros or a long text."""
    head = rng.choice([b"", handshake_frame("PLAIN"), token_frame(b"")])
    conversation.send(_sized(head.ljust(FRAME_BYTES_MAX, rng.choice([b"\0", b"\xff", b"a"]))))


def _piecewise(conversation: Conversation, rng: random.Random) -> None:
    """Send a frame in pieces of a few bytes."""
    data = _sized(handshake_frame(rng.choice(MECHANISMS)))
    while data:
        size = rng.randrange(1, 12)
        conversation.send(data[:size])
        data = data[size:]


def _unframed(conversation: Conversation, rng: random.Random) -> None:
    conversation.send(_random_bytes(rng))


_TOKENS: tuple[Step, ...] = (_stray_token, _empty_token)
_OTHERS: tuple[Step, ...] = (
    _request,
    _request,
    _oversized,
    _piecewise,
    _unframed,
    _mechanism_steps,
    _largest,
)
