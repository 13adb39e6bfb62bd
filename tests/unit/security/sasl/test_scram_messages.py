"""SCRAM messages: the examples of RFC 5802 and 7677, and everything that must be refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.sasl.scram_messages import (
    MESSAGE_SIZE_MAX,
    client_final,
    client_final_without_proof,
    client_first,
    from_saslname,
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
    server_final,
    server_first,
    to_saslname,
)


def test_client_first() -> None:
    first = parse_client_first(b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL")
    assert (first.gs2_header, first.bare) == ("n,,", "n=user,r=fyko+d2lbbFgONRv9qkxdawL")
    assert (first.username, first.authorization_id) == ("user", "")
    assert (first.nonce, first.extensions) == ("fyko+d2lbbFgONRv9qkxdawL", {})


def test_client_first_with_names_and_extensions() -> None:
    first = parse_client_first(b"n,a=x=2Cy,n=a=2Cb=3Dc=2C,r=N!,tokenauth=true,x=a=b")
    assert (first.gs2_header, first.authorization_id) == ("n,a=x=2Cy,", "x,y")
    assert (first.bare, first.username) == ("n=a=2Cb=3Dc=2C,r=N!,tokenauth=true,x=a=b", "a,b=c,")
    assert first.extensions == {"tokenauth": "true", "x": "a=b"}
    assert first.is_token_authenticated


@pytest.mark.parametrize("extension", ["tokenauth=TRUE", "tokenauth=True"])
def test_token_authentication(extension: str) -> None:
    assert parse_client_first(f"n,,n=u,r=N,{extension}".encode()).is_token_authenticated


@pytest.mark.parametrize("extension", ["tokenauth=false", "tokenauth=1", "tokenauths=true"])
def test_no_token_authentication(extension: str) -> None:
    assert not parse_client_first(f"n,,n=u,r=N,{extension}".encode()).is_token_authenticated


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=u",
        b"n,,n=u,",
        b"n,,n=,r=N",
        b"n,,n=u,r=",
        b"n,,r=N,n=u",
        b"n,n=u,r=N",
        b"n=u,r=N,x=y,z=w",
        b"y,,n=u,r=N",
        b"p=tls-unique,,n=u,r=N",
        b"p=tls-exporter,,n=u,r=N",
        b"N,,n=u,r=N",
        b"n,u,n=u,r=N",
        b"n,a=,n=u,r=N",
        b"n,a==,n=u,r=N",
        b"n,,m=x,n=u,r=N",
        b"n,,n=u=,r=N",
        b"n,,n=u=2c,r=N",
        b"n,,n=u=41,r=N",
        b"n,,n=u,r=N M",
        b"n,,n=u,r=N\x7f",
        b"n,,n=u,r=\xc3\xa4",
        b"n,,n=\xff,r=N",
        b"n,,n=u\0,r=N",
        b"n,,n=u,r=N,",
        b"n,,n=u,r=N,x",
        b"n,,n=u,r=N,x=",
        b"n,,n=u,r=N,1=y",
        b"n,,n=u,r=N,x=a,x=b",
        b"n,,n=u,r=N,tokenauth=true,tokenauth=false",
        b"n,,n=u,r=N,n=admin",
        b"n,,n=u,r=N,m=x",
        b"n,,n=u,r=N,x=\0",
        b"n,,n=" + b"u" * MESSAGE_SIZE_MAX + b",r=N",
    ],
)
def test_malformed_client_first(message: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_client_first(message)


def test_mandatory_extensions_are_named() -> None:
    for parse, message in (
        (parse_client_first, b"n,,m=x,n=u,r=N"),
        (parse_server_first, b"m=x,r=N,s=QQ==,i=4096"),
    ):
        with pytest.raises(ValueError, match="mandatory extensions"):
            parse(message)
    with pytest.raises(ValueError, match="too few attributes"):
        parse_client_final(b"c=biws,r=N")


def test_server_first() -> None:
    first = parse_server_first(b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096,x=y")
    assert first.nonce == "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j"
    assert (first.salt.hex(), first.iterations) == ("4125c247e43ab1e93c6dff76", 4096)
    assert first.text.endswith(",i=4096,x=y")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"r=N,s=QQ==",
        b"r=N,i=4096,s=QQ==",
        b"s=QQ==,r=N,i=4096",
        b"m=x,r=N,s=QQ==,i=4096",
        b"r=,s=QQ==,i=4096",
        b"r=N,s=,i=4096",
        b"r=N,s=QQ,i=4096",
        b"r=N,s=Q_==,i=4096",
        b"r=N,s=\xc3\xa4,i=4096",
        b"r=N,s=QQ==,i=",
        b"r=N,s=QQ==,i=0",
        b"r=N,s=QQ==,i=-1",
        b"r=N,s=QQ==,i=+4096",
        b"r=N,s=QQ==,i=4_096",
        b"r=N,s=QQ==,i=\xd9\xa4",
        b"r=N,s=QQ==,i=1e4",
        b"r=N,s=QQ==,i=" + b"9" * 5000,
        b"r=N,s=QQ==,i=4096,",
        b"r=N,s=QQ==,i=4096,v=x",
        b"\xff",
        b"r=N,s=QQ==,i=4096,x=" + b"y" * MESSAGE_SIZE_MAX,
    ],
)
def test_malformed_server_first(message: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_server_first(message)


def test_client_final() -> None:
    final = parse_client_final(b"c=biws,r=Nonce,x=y,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=")
    assert (final.without_proof, final.channel_binding) == ("c=biws,r=Nonce,x=y", b"n,,")
    assert (final.nonce, len(final.proof)) == ("Nonce", 20)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"c=biws,r=N",
        b"c=biws,r=N,p=",
        b"c=biws,r=N,p=A",
        b"c=biws,r=N,p=AA==,",
        b"c=biws,r=N,p=AA==,x=y",
        b"c=,r=N,p=AA==",
        b"c=*,r=N,p=AA==",
        b"r=N,c=biws,p=AA==",
        b"c=biws,r=,p=AA==",
        b"c=biws,r=N,p=AA==,p=AA==",
        b"c=biws,r=N,x,p=AA==",
        b"\xff",
    ],
)
def test_malformed_client_final(message: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_client_final(message)


def test_server_final() -> None:
    assert parse_server_final(b"v=AA==,x=y") == (None, b"\0")
    assert parse_server_final(b"e=unknown-user") == ("unknown-user", b"")


@pytest.mark.parametrize("message", [b"", b"v=", b"v=A", b"e=", b"x=y", b"v=AA==,", b"v=AA==,e=x", b"\xff"])
def test_malformed_server_final(message: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_server_final(message)


NAMES = st.text(min_size=1).filter(lambda text: "\0" not in text)
NONCES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), min_size=1)


@given(NAMES, NONCES, st.booleans(), st.one_of(st.just(""), NAMES))
def test_client_first_round_trips(username: str, nonce: str, is_token: bool, authorization_id: str) -> None:
    extensions = {"tokenauth": "true"} if is_token else {}
    first = client_first(username, nonce, extensions, authorization_id)
    assert parse_client_first(f"{first.gs2_header}{first.bare}".encode()) == first


@given(NONCES, st.binary(min_size=1), st.integers(1, 10**9 - 1), st.binary(min_size=1))
def test_other_messages_round_trip(nonce: str, salt: bytes, iterations: int, proof: bytes) -> None:
    first = server_first(nonce, salt, iterations)
    assert parse_server_first(first.text.encode()) == first
    without_proof = client_final_without_proof("n,,", nonce)
    assert parse_client_final(client_final(without_proof, proof)) == (without_proof, b"n,,", nonce, proof)
    assert parse_server_final(server_final(proof)) == (None, proof)


@given(NAMES)
def test_saslnames_round_trip(name: str) -> None:
    saslname = to_saslname(name)
    assert "," not in saslname
    assert from_saslname(saslname) == name


@pytest.mark.parametrize("name", ["", "a\0"])
def test_names_that_cannot_be_sent(name: str) -> None:
    with pytest.raises(ValueError, match="without NUL"):
        to_saslname(name)
