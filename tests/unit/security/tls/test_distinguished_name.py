"""Distinguished names as Java writes them. The expected texts are the answers of X500Principal.getName."""

from __future__ import annotations

import ssl

import pytest
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.der_names import (
    BMP,
    IA5,
    PRINTABLE,
    TELETEX,
    UNIVERSAL,
    UTF8,
    Attribute,
    encode,
    encode_name,
)
from tests.support.tls import VALIDITY, authority, name, server_certificate

from odradek.security.tls.certificates import make_client_certificate
from odradek.security.tls.distinguished_name import certificate_names, name_text, subject_name

HEX = "#"


def attribute(kind: str, value: str | bytes, tag: int = UTF8) -> list[Attribute]:
    return [(kind, tag, value if isinstance(value, bytes) else value.encode())]


@pytest.mark.parametrize(
    ("sets", "text"),
    [
        ([], ""),
        (
            [attribute("C", "DE"), attribute("O", "y"), attribute("OU", "x"), attribute("CN", "alice")],
            "CN=alice,OU=x,O=y,C=DE",
        ),
        (
            [attribute(kind, "v") for kind in ("DC", "UID", "STREET", "L", "ST", "O", "OU", "C", "CN")],
            "CN=v,C=v,OU=v,O=v,ST=v,L=v,STREET=v,UID=v,DC=v",
        ),
        ([attribute("CN", 'a,b=c+d<e>f#g;h"i\\j')], 'CN=a\\,b\\=c\\+d\\<e\\>f\\#g\\;h\\"i\\\\j'),
        ([attribute("CN", "  a  b ")], "CN=\\ \\ a  b\\ "),
        ([attribute("O", "   ")], "O=\\ \\ \\ "),
        ([attribute("CN", "\ra\r"), attribute("O", "\n\tx\n")], "O=\n\tx\n,CN=\\\ra\\\r"),
        ([attribute("CN", "a\0b")], "CN=a\\00b"),
        ([attribute("CN", "Zoë 𝄞 €")], "CN=Zoë 𝄞 €"),
        (
            [attribute("EMAILADDRESS", b"a@b.c", IA5), attribute("CN", "x")],
            "CN=x,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            [attribute("SERIALNUMBER", b"12", PRINTABLE), attribute("CN", "x")],
            "CN=x,2.5.4.5=" + HEX + "13023132",
        ),
        ([attribute("T", "boss")], "2.5.4.12=#0c04626f7373"),
        ([[("OU", UTF8, b"a"), ("CN", UTF8, b"b")], attribute("C", b"US", PRINTABLE)], "C=US,OU=a+CN=b"),
        ([attribute("CN", ""), attribute("OU", "x")], "OU=x,CN="),
        ([attribute("CN", b"Jos\xe9", TELETEX)], "CN=Jos\ufffd"),
        ([attribute("CN", "ab".encode("utf-16-be"), BMP)], "CN=\\00a\\00b"),
        ([attribute("CN", "a".encode("utf-32-be"), UNIVERSAL)], "CN=#1c0400000061"),
        ([attribute("CN", b"\x01\x02", 0x04)], "CN=" + HEX + "04020102"),
        ([attribute("CN", b"\xff\xed\xa0\x80x")], "CN=\ufffd\ufffdx"),
        ([attribute("CN", "#a")], "CN=\\#a"),
        ([attribute("2.999.3", "x")], "2.999.3=#0c0178"),
    ],
)
def test_name_is_written_as_by_java(sets: list[list[Attribute]], text: str) -> None:
    assert name_text(encode_name(*sets)) == text


def der(certificate: object) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.certificate_pem)  # type: ignore[attr-defined]


def test_names_of_a_certificate() -> None:
    subject = name(
        (NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A, B"), (NameOID.COMMON_NAME, "alice")
    )
    certificate = make_client_certificate(authority(), subject, VALIDITY)
    assert subject_name(der(certificate)) == "CN=alice,O=A\\, B,C=DE"
    assert certificate_names(der(certificate)).alternatives == frozenset()
    names = certificate_names(der(server_certificate()))
    assert names.subject == "CN=localhost"
    assert names.alternatives == {
        b"\x82\x09localhost",
        b"\x87\x04\x7f\0\0\1",
        b"\x87\x10" + bytes(15) + b"\1",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x30",
        b"\x30\x80\x00\x00",  # indefinite length
        b"\x30\x05\x00",  # truncated
        b"\x30\x89" + bytes(9),  # length of nine octets
        b"\x31\x00",  # a set instead of a sequence
        b"\x30\x02\x30\x00",  # an attribute outside a set
        encode(0x30, encode(0x31, encode(0x30, b"\x06\x01\x83\x0c\x00"))),  # an unfinished identifier
        encode(0x30, encode(0x31, encode(0x30, b"\x06\x03\x55\x04\x03"))),  # no value
        encode_name(attribute("CN", "x")) + b"\x00",
    ],
)
def test_malformed_names_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        name_text(data)


@pytest.mark.parametrize("data", [b"", encode(0x30, b""), encode(0x30, encode(0x30, b"\x02\x01\x01"))])
def test_certificate_without_a_subject_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        subject_name(data)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=60), position=st.integers(0, 400), octet=st.integers(0, 255))
def test_damaged_certificates_raise_nothing_else(data: bytes, position: int, octet: int) -> None:
    certificate = bytearray(der(server_certificate()))
    certificate[position % len(certificate)] = octet
    for damaged in (data, bytes(certificate), bytes(certificate[:position])):
        try:
            certificate_names(damaged)
        except ValueError:
            continue
