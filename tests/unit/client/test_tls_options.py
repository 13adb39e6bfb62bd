"""TLS options of a client."""

from __future__ import annotations

import pytest
from tests.support.tls import read_nothing

from odradek.client.tls_options import tls_options
from odradek.config.client.security import SECURITY_SETTINGS
from odradek.config.definition import by_name, parse_settings
from odradek.model.errors import ConfigError
from odradek.model.secret import Secret
from odradek.security.tls.tls_options import PEM, PKCS12, KeyStoreOptions, TlsOptions, TrustStoreOptions

TABLE = by_name(SECURITY_SETTINGS)


def test_defaults_verify_the_broker() -> None:
    options = tls_options(parse_settings(TABLE, {}), read_nothing)
    assert options == TlsOptions()
    assert options.checks_host_name


def test_all_options_are_used() -> None:
    values = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "a",
        "ssl.keystore.certificate.chain": "b",
        "ssl.key.password": "c",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": "/trust",
        "ssl.truststore.password": "d",
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_GCM_SHA256",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert tls_options(parse_settings(TABLE, values), read_nothing) == TlsOptions(
        KeyStoreOptions(PEM, key_password=Secret("c"), key=Secret("a"), certificate_chain=Secret("b")),
        TrustStoreOptions(PKCS12, "/trust", Secret("d")),
        ("TLSv1.2",),
        ("TLS_RSA_WITH_AES_128_GCM_SHA256",),
        endpoint_identification="",
    )


def test_files_of_librdkafka_options() -> None:
    values = {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/certificate.pem",
        "ssl.key.location": "/key.pem",
        "ssl.key.password": "c",
    }
    assert tls_options(parse_settings(TABLE, values), str.encode) == TlsOptions(
        KeyStoreOptions(
            PEM,
            key_password=Secret("c"),
            key=Secret("/key.pem"),
            certificate_chain=Secret("/certificate.pem"),
        ),
        TrustStoreOptions(PEM, "/ca.pem"),
    )


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"ssl.key.location": "/key.pem"}, "must be set together"),
        ({"ssl.certificate.location": "/certificate.pem"}, "must be set together"),
        (
            {"ssl.key.location": "/key.pem", "ssl.certificate.location": "/certificate.pem"},
            "ssl.key.location: /key.pem cannot be read",
        ),
    ],
)
def test_unusable_files(values: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        tls_options(parse_settings(TABLE, values), read_nothing)
