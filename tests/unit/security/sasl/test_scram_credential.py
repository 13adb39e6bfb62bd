"""SCRAM credentials and their text."""

from __future__ import annotations

import hashlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.secret import Secret
from odradek.security.sasl import scram_credential
from odradek.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512
from odradek.security.sasl.scram_credential import (
    ScramCredential,
    create_credential,
    credential_from_salted_password,
    format_credential,
    parse_credential,
    random_text,
    salted_password,
    text_of_number,
)

PASSWORD = Secret("hunter2")
TEXT = (
    "salt=MTIz,stored_key=" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=" + ",server_key="
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=" + ",iterations=4096"
)


def test_text_is_that_of_kafka() -> None:
    credential = ScramCredential(b"123", bytes(32), b"\1" * 32, 4096)
    assert format_credential(credential).reveal() == TEXT
    assert parse_credential(SCRAM_SHA_256, TEXT) == credential


@pytest.mark.parametrize("iterations", [1, 4096, 999_999_999])
def test_iterations_of_stored_credentials(iterations: int) -> None:
    # Others may have stored them; the server refuses too few when a client comes.
    text = TEXT.replace("4096", str(iterations))
    assert parse_credential(SCRAM_SHA_256, text).iterations == iterations


def test_order_of_fields_is_free() -> None:
    assert parse_credential(SCRAM_SHA_256, ",".join(reversed(TEXT.split(",")))).salt == b"123"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        TEXT + ",x=y",
        TEXT + ",salt=MTIz",
        TEXT.replace("salt=MTIz,", ""),
        TEXT.replace("salt=", "Salt="),
        TEXT.replace("MTIz", ""),
        TEXT.replace("MTIz", "hunter2!"),
        TEXT.replace("AAAA", "", 1),
        TEXT.replace("AQEB", "", 1),
        TEXT.replace("4096", "0"),
        TEXT.replace("4096", "-1"),
        TEXT.replace("4096", ""),
        TEXT.replace("4096", "4096.0"),
        TEXT.replace("4096", "1" * 20),
        TEXT.replace("4096", "1" * 10),
        TEXT.replace("4096", "\u0664"),
        TEXT.replace("MTIz", "MTIz" * 2000),
    ],
)
def test_malformed_text(text: str) -> None:
    with pytest.raises(ValueError, match=r".+") as refused:
        parse_credential(SCRAM_SHA_256, text)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_keys_fit_the_mechanism() -> None:
    credential = create_credential(SCRAM_SHA_512, PASSWORD, os.urandom)
    with pytest.raises(ValueError, match="32 bytes"):
        parse_credential(SCRAM_SHA_256, format_credential(credential).reveal())


@pytest.mark.parametrize("mechanism", [SCRAM_SHA_256, SCRAM_SHA_512])
def test_creation(mechanism: str) -> None:
    credential = create_credential(mechanism, PASSWORD, os.urandom, 5000)
    salted = salted_password(mechanism, PASSWORD, credential.salt, 5000)
    assert credential == credential_from_salted_password(mechanism, salted, credential.salt, 5000)
    assert credential.iterations == 5000
    assert len(credential.salt) >= 20
    assert credential.salt != create_credential(mechanism, PASSWORD, os.urandom).salt
    assert parse_credential(mechanism, format_credential(credential).reveal()) == credential
    for shown in (repr(credential), str(credential), f"{credential}"):
        assert shown == "ScramCredential(iterations=5000, keys=[hidden])"


@pytest.mark.parametrize("iterations", [4095, 16385, 0, -1])
def test_iterations_are_within_the_limits_of_kafka(iterations: int) -> None:
    with pytest.raises(ValueError, match="from 4096 to 16384"):
        create_credential(SCRAM_SHA_256, PASSWORD, os.urandom, iterations)
    with pytest.raises(ValueError, match="from 4096 to 16384"):
        credential_from_salted_password(SCRAM_SHA_256, bytes(32), b"salt", iterations)


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_limits_are_allowed(iterations: int) -> None:
    assert create_credential(SCRAM_SHA_256, PASSWORD, os.urandom, iterations).iterations == iterations


def test_vector_of_rfc_5802(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(scram_credential.HASHES, "SCRAM-SHA-1", "sha1")
    salt = bytes.fromhex("4125c247e43ab1e93c6dff76")
    salted = salted_password("SCRAM-SHA-1", Secret("pencil"), salt, 4096)
    assert salted.hex() == "1d96ee3a529b5a5f9e47c01f229a2cb8a6e15f7d"
    credential = credential_from_salted_password("SCRAM-SHA-1", salted, salt, 4096)
    assert credential.stored_key.hex() == "e9d94660c39d65c38fbad91c358f14da0eef2bd6"
    assert credential.server_key.hex() == "0fe09258b3ac852ba502cc62ba903eaacdbf7d31"


@given(st.integers(min_value=0))
def test_numbers_in_base_36(number: int) -> None:
    text = text_of_number(number)
    assert int(text, 36) == number
    assert text == "0" or not text.startswith("0")


@given(st.binary(min_size=17, max_size=17))
def test_random_texts_have_130_bits(data: bytes) -> None:
    text = random_text(lambda size: data[:size])
    assert int(text, 36) == int.from_bytes(data, "big") >> 6


def test_salts_and_nonces_differ() -> None:
    assert len({random_text(os.urandom) for _ in range(100)}) == 100
    assert hashlib.sha256(random_text(os.urandom).encode("ascii")).digest()
