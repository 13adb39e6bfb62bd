"""Messages of SCRAM (RFC 5802, section 7), as far as Kafka uses it: without channel binding.

Parsing is strict: attributes in their order, none twice, no mandatory extensions. Optional extensions are
accepted and, but for ``tokenauth``, ignored. A malformed message raises ValueError, with nothing of
it that could be a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

MESSAGE_SIZE_MAX: Final = 16_384
TOKEN_AUTHENTICATION: Final = "tokenauth"
"""Kafka's extension for delegation tokens: the username is a token's id."""

ITERATION_DIGITS_MAX: Final = 9

_RESERVED: Final = frozenset("anmrcsipve")
"""Attributes of RFC 5802, which are no names of extensions."""

_NONCE: Final = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_EXTENSION: Final = re.compile(r"([A-Za-z]+)=([^\0,]+)")
_SASLNAME: Final = re.compile(r"(?:[^\0=,]|=2C|=3D)+")


class ClientFirst(NamedTuple):
    """``gs2_header`` and ``bare`` are the parts of the message as sent: the proof covers them."""

    gs2_header: str
    bare: str
    username: str
    authorization_id: str
    nonce: str
    extensions: Mapping[str, str]

    @property
    def is_token_authenticated(self) -> bool:
        return self.extensions.get(TOKEN_AUTHENTICATION, "").lower() == "true"


class ServerFirst(NamedTuple):
    text: str
    nonce: str
    salt: bytes
    iterations: int


class ClientFinal(NamedTuple):
    """``without_proof`` is the message as sent, up to the proof."""

    without_proof: str
    channel_binding: bytes
    nonce: str
    proof: bytes


class ServerFinal(NamedTuple):
    """Either an error or a signature."""

    error: str | None
    signature: bytes


def client_first(
    username: str, nonce: str, extensions: Mapping[str, str], authorization_id: str
) -> ClientFirst:
    authzid = f"a={to_saslname(authorization_id)}" if authorization_id else ""
    bare = ",".join(
        [
            f"n={to_saslname(username)}",
            f"r={nonce}",
            *(f"{name}={value}" for name, value in extensions.items()),
        ]
    )
    return ClientFirst(f"n,{authzid},", bare, username, authorization_id, nonce, extensions)


def parse_client_first(message: bytes) -> ClientFirst:
    text = _text(message)
    # Every comma separates: those inside of names are escaped.
    parts = text.split(",")
    if parts[0] != "n":
        raise ValueError(
            "channel binding is not supported: gs2 header must begin with 'n,', got another flag"
        )
    if len(parts) < 4:
        raise ValueError(
            "client first message must be n,[a=authzid],n=username,r=nonce, got too few attributes"
        )
    authzid, attributes = parts[1], parts[2:]
    authorization_id = from_saslname(_value("a", authzid)) if authzid else ""
    if attributes[0].startswith("m="):
        raise ValueError("mandatory extensions are not supported")
    username = from_saslname(_value("n", attributes[0]))
    nonce = _nonce(attributes[1])
    header = f"n,{authzid},"
    return ClientFirst(
        header, text[len(header) :], username, authorization_id, nonce, _extensions(attributes[2:])
    )


def server_first(nonce: str, salt: bytes, iterations: int) -> ServerFirst:
    text = f"r={nonce},s={base64.b64encode(salt).decode('ascii')},i={iterations}"
    return ServerFirst(text, nonce, salt, iterations)


def parse_server_first(message: bytes) -> ServerFirst:
    text = _text(message)
    attributes = text.split(",")
    if attributes[0].startswith("m="):
        raise ValueError("mandatory extensions are not supported")
    if len(attributes) < 3:
        raise ValueError("server first message must be r=nonce,s=salt,i=iterations, got too few attributes")
    nonce = _nonce(attributes[0])
    salt = _base64("s", attributes[1])
    iterations = _value("i", attributes[2])
    if not (iterations.isascii() and iterations.isdigit()) or len(iterations) > ITERATION_DIGITS_MAX:
        raise ValueError("iterations must be a positive number, got something else")
    if int(iterations) < 1:
        raise ValueError(f"iterations must be a positive number, got {iterations}")
    _extensions(attributes[3:])
    return ServerFirst(text, nonce, salt, int(iterations))


def client_final_without_proof(gs2_header: str, nonce: str) -> str:
    return f"c={base64.b64encode(gs2_header.encode('utf-8')).decode('ascii')},r={nonce}"


def client_final(without_proof: str, proof: bytes) -> bytes:
    return f"{without_proof},p={base64.b64encode(proof).decode('ascii')}".encode()


def parse_client_final(message: bytes) -> ClientFinal:
    text = _text(message)
    attributes = text.split(",")
    if len(attributes) < 3:
        raise ValueError("client final message must be c=binding,r=nonce,p=proof, got too few attributes")
    channel_binding = _base64("c", attributes[0])
    nonce = _nonce(attributes[1])
    proof = _base64("p", attributes[-1])
    _extensions(attributes[2:-1])
    return ClientFinal(text.rpartition(",")[0], channel_binding, nonce, proof)


def server_final(signature: bytes) -> bytes:
    return b"v=" + base64.b64encode(signature)


def parse_server_final(message: bytes) -> ServerFinal:
    first, *extensions = _text(message).split(",")
    if first.startswith("e="):
        return ServerFinal(_value("e", first), b"")
    signature = _base64("v", first)
    _extensions(extensions)
    return ServerFinal(None, signature)


def to_saslname(name: str) -> str:
    if not name or "\0" in name:
        raise ValueError(f"username must be a non-empty str without NUL, got {name!r}")
    return name.replace("=", "=3D").replace(",", "=2C")


def from_saslname(saslname: str) -> str:
    if not _SASLNAME.fullmatch(saslname):
        raise ValueError(
            "commas and equals signs of a username must be escaped as =2C and =3D, got other escapes"
        )
    return saslname.replace("=2C", ",").replace("=3D", "=")


def _text(message: bytes) -> str:
    if len(message) > MESSAGE_SIZE_MAX:
        raise ValueError(f"message must be <= {MESSAGE_SIZE_MAX} bytes, got {len(message)}")
    try:
        return message.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("message must be UTF-8, got other bytes") from None


def _value(name: str, attribute: str) -> str:
    """Return what follows ``name=``, which must not be empty."""
    value = attribute.removeprefix(f"{name}=")
    if len(value) + 2 != len(attribute) or not value:
        raise ValueError(f"attribute {name} expected, with a value")
    return value


def _nonce(attribute: str) -> str:
    nonce = _value("r", attribute)
    if not _NONCE.fullmatch(nonce):
        raise ValueError("nonce must be printable ASCII without a comma, got other characters")
    return nonce


def _base64(name: str, attribute: str) -> bytes:
    value = _value(name, attribute)
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise ValueError(f"value of attribute {name} must be base64, got something else") from None


def _extensions(attributes: Sequence[str]) -> dict[str, str]:
    extensions: dict[str, str] = {}
    for attribute in attributes:
        match = _EXTENSION.fullmatch(attribute)
        if match is None or match[1] in _RESERVED or match[1] in extensions:
            raise ValueError("extensions must be name=value with names that occur once, got something else")
        extensions[match[1]] = match[2]
    return extensions
