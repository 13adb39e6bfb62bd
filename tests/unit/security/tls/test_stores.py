"""Key stores and trust stores: PEM and PKCS12, files and text, and every way in which they can be wrong."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.tls import (
    VALIDITY,
    authority,
    client_certificate,
    foreign_authority,
    key_store,
    read_nothing,
    server_certificate,
    server_options,
    trust_store,
)

from odradek.model.errors import ConfigError
from odradek.model.secret import Secret
from odradek.security.tls import private_file as private_file_module
from odradek.security.tls.certificates import make_authority, make_server_certificate, trust_store_pkcs12
from odradek.security.tls.private_file import private_file
from odradek.security.tls.stores import STORE_BYTES_MAX, KeyMaterial, read_material
from odradek.security.tls.tls_context import create_context
from odradek.security.tls.tls_options import JKS, PEM, PKCS12, KeyStoreOptions, TlsOptions, TrustStoreOptions

PASSWORD = Secret("correct horse")


def files(**contents: bytes | str) -> Callable[[str], bytes]:
    """Return a reader of these files, named /key and /trust."""

    def read(path: str) -> bytes:
        content = contents.get(path.strip("/"))
        if content is None:
            return read_nothing(path)
        return content if isinstance(content, bytes) else content.encode()

    return read


def key_of(options: KeyStoreOptions, read: Callable[[str], bytes] = read_nothing) -> KeyMaterial:
    key = read_material(TlsOptions(options), read).key
    assert key is not None
    create_context(TlsOptions(options), read, server_side=False)  # OpenSSL accepts it
    return key


def problems_of(options: TlsOptions, read: Callable[[str], bytes]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        create_context(options, read, server_side=False)
    return list(caught.value.problems)


def test_pem_file_with_key_and_chain() -> None:
    content = server_certificate().key_store_pem()
    key = key_of(KeyStoreOptions(PEM, "/key"), files(key=content))
    assert key.certificates == (server_certificate().certificate_pem,)
    assert not key.is_encrypted


def test_pem_text_survives_lost_line_breaks() -> None:
    """Properties files join lines."""
    options = key_store(server_certificate())
    assert options.key is not None
    assert options.certificate_chain is not None
    joined = options._replace(
        key=Secret(" ".join(options.key.reveal().split("\n"))),
        certificate_chain=Secret("comment " + options.certificate_chain.reveal().replace("\n", "\r\n  ")),
    )
    assert key_of(joined).key.reveal() == options.key.reveal()


def test_encrypted_key_needs_its_password() -> None:
    options = key_store(server_certificate(), PASSWORD)
    assert key_of(options).is_encrypted
    assert problems_of(TlsOptions(options._replace(key_password=None)), read_nothing) == [
        "ssl.key.password: required, because the private key of ssl.keystore.key is encrypted"
    ]
    assert problems_of(TlsOptions(options._replace(key_password=Secret("wrong"))), read_nothing) == [
        "ssl.keystore.key cannot be loaded: ssl.key.password is wrong, or the private key is damaged"
    ]


def test_old_encrypted_key_is_recognized() -> None:
    content = (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n"
        "-----END RSA PRIVATE KEY-----\n"
    ) + server_certificate().certificate_pem
    (problem,) = problems_of(TlsOptions(KeyStoreOptions(PEM, "/key")), files(key=content))
    assert problem.startswith("ssl.key.password: required")


@pytest.mark.parametrize("store_type", [PKCS12, JKS])
def test_pkcs12_file(store_type: str) -> None:
    """Since Java 9, keytool writes PKCS12 whatever the type of the setting is."""
    intermediate = make_authority("Intermediate", VALIDITY, authority())
    certificate = make_server_certificate(intermediate, ["localhost"], VALIDITY)
    content = certificate.key_store_pkcs12("server", PASSWORD)
    key = key_of(KeyStoreOptions(store_type, "/key", PASSWORD), files(key=content))
    assert key.certificates[0] in certificate.certificate_pem
    assert key.certificates[1] == intermediate.certificate_pem
    assert len(key.certificates) == 3


def test_trust_stores() -> None:
    expected = (authority().certificate_pem,)
    both = authority().certificate_pem + foreign_authority().certificate_pem
    content = trust_store_pkcs12(authority(), PASSWORD)
    cases: list[tuple[TrustStoreOptions, Callable[[str], bytes], int]] = [
        (trust_store(), read_nothing, 1),
        (TrustStoreOptions(PEM, "/trust"), files(trust=both), 2),
        (TrustStoreOptions(PKCS12, "/trust", PASSWORD), files(trust=content), 1),
    ]
    for options, read, count in cases:
        trusted = read_material(TlsOptions(trust_store=options), read).trusted
        assert trusted is not None
        assert (trusted[:1], len(trusted)) == (expected, count)
        context = create_context(TlsOptions(trust_store=options), read, server_side=False)
        assert len(context.get_ca_certs()) == count


OTHER_KEY = client_certificate().key_pem() + server_certificate().certificate_pem
NO_CERTIFICATE = server_certificate().key_pem()
TWO_KEYS = server_certificate().key_pem() + server_certificate().key_store_pem()
DAMAGED = server_certificate().key_store_pem().replace("M", "!", 1)
ALTERED = server_certificate().key_pem() + authority().certificate_pem.replace("MII", "MAA")
PKCS12_FILE = server_certificate().key_store_pkcs12("server", PASSWORD)
JKS_FILE = b"\xfe\xed\xfe\xed\0\0\0\2"


@pytest.mark.parametrize(
    ("store", "content", "problem"),
    [
        (KeyStoreOptions(PEM, "/key"), None, "ssl.keystore.location: /key cannot be loaded: No such file"),
        (KeyStoreOptions(PEM, "/key"), OTHER_KEY, "does not belong to the certificate"),
        (KeyStoreOptions(PEM, "/key"), NO_CERTIFICATE, "at least one certificate in PEM format is required"),
        (KeyStoreOptions(PEM, "/key"), TWO_KEYS, "exactly one private key in PEM format is required, got 2"),
        (KeyStoreOptions(PEM, "/key"), DAMAGED, "a PEM block (PRIVATE KEY) is damaged"),
        (KeyStoreOptions(PEM, "/key"), ALTERED, "is damaged"),
        (KeyStoreOptions(PEM, "/key"), "", "exactly one private key"),
        (KeyStoreOptions(PEM, "/key"), b"x" * (STORE_BYTES_MAX + 1), "must be at most 8388608 bytes"),
        (KeyStoreOptions(PEM, "/key"), JKS_FILE, "is a JKS file, not PEM"),
        (KeyStoreOptions(PKCS12, "/key", Secret("wrong")), PKCS12_FILE, "or ssl.keystore.password is wrong"),
        (KeyStoreOptions(PKCS12, "/key", PASSWORD), b"rubbish", "is no PKCS12 file"),
        (
            KeyStoreOptions(PKCS12, "/key", PASSWORD),
            trust_store_pkcs12(authority(), PASSWORD),
            "has no private key with a certificate",
        ),
        (
            KeyStoreOptions(JKS, "/key", PASSWORD),
            JKS_FILE,
            "is a JKS file, which is not supported. Convert it: keytool -importkeystore -srckeystore /key "
            "-destkeystore /key.p12 -deststoretype PKCS12, and set ssl.keystore.type=PKCS12",
        ),
        (
            KeyStoreOptions(JKS, "/key", PASSWORD),
            server_certificate().key_store_pem(),
            "ssl.keystore.type: must be PEM for the PEM file /key",
        ),
    ],
)
def test_unusable_key_stores(store: KeyStoreOptions, content: str | bytes | None, problem: str) -> None:
    contents = {} if content is None else {"key": content}
    (line,) = problems_of(TlsOptions(store), files(**contents))
    assert problem in line
    assert PASSWORD.reveal() not in line
    assert server_certificate().key_pem()[40:80] not in line


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "ssl.truststore.location: /trust cannot be loaded"),
        ("", "at least one certificate in PEM format is required"),
        (authority().certificate_pem.replace("MII", "MAA"), "a certificate is damaged"),
        (authority().certificate_pem[:300], "at least one certificate in PEM format is required"),
    ],
)
def test_unusable_trust_stores(content: str | None, problem: str) -> None:
    contents = {} if content is None else {"trust": content}
    options = TlsOptions(trust_store=TrustStoreOptions(PEM, "/trust"))
    (line,) = problems_of(options, files(**contents))
    assert problem in line


def test_problems_of_both_stores_are_reported_together() -> None:
    options = TlsOptions(KeyStoreOptions(PEM, "/key"), TrustStoreOptions(PEM, "/trust"))
    assert len(problems_of(options, read_nothing)) == 2


def test_repr_of_material_hides_the_key() -> None:
    assert "PRIVATE" not in repr(read_material(server_options(), read_nothing))


def test_key_is_not_left_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with private_file(b"secret") as path:
        assert Path(path).read_bytes() == b"secret"
        assert path.startswith("/proc/self/fd/")
    monkeypatch.setattr(private_file_module, "_DESCRIPTORS", str(tmp_path / "missing"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = os.umask(0)
    try:
        with private_file(b"secret") as path:
            assert Path(path).read_bytes() == b"secret"
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    finally:
        os.umask(before)
    assert list(tmp_path.iterdir()) == []


def test_key_loads_without_memory_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert key_of(key_store(server_certificate(), PASSWORD)).is_encrypted
    assert list(tmp_path.iterdir()) == []
