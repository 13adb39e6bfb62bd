"""TLS options of a listener, from general settings and those with the listener's prefix."""

from __future__ import annotations

import pytest

from odradek.broker.security.tls_options import change_rules, tls_options
from odradek.config import broker
from odradek.config.definition import Settings, parse_settings
from odradek.model.secret import Secret
from odradek.security.tls.context_source import ChangeRules
from odradek.security.tls.tls_options import JKS, PEM, PKCS12, KeyStoreOptions, TlsOptions, TrustStoreOptions


def settings(**values: str) -> Settings:
    return parse_settings(broker.BY_NAME, {name.replace("_", "."): value for name, value in values.items()})


def test_defaults_are_those_of_kafka() -> None:
    assert tls_options(settings(), "SSL") == TlsOptions()
    assert TlsOptions().key_store.type == JKS
    assert change_rules(settings(), "SSL") == ChangeRules()


def test_all_settings_are_used() -> None:
    values = settings(
        ssl_keystore_type="PKCS12",
        ssl_keystore_location="/key",
        ssl_keystore_password="a",
        ssl_key_password="b",
        ssl_truststore_type="PEM",
        ssl_truststore_certificates="c",
        ssl_enabled_protocols="TLSv1.3",
        ssl_cipher_suites="TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384",
        ssl_client_auth="required",
        ssl_endpoint_identification_algorithm="",
        ssl_allow_dn_changes="true",
    )
    assert tls_options(values, "SSL") == TlsOptions(
        KeyStoreOptions(PKCS12, "/key", Secret("a"), Secret("b")),
        TrustStoreOptions(PEM, certificates=Secret("c")),
        ("TLSv1.3",),
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"),
        "required",
        "",
    )
    assert change_rules(values, "SSL") == ChangeRules(allow_dn=True)


def test_settings_of_the_listener_come_first() -> None:
    values = settings(
        **{
            "listener.name.internal.ssl.keystore.location": "/internal",
            "listener.name.internal.ssl.client.auth": "required",
        },
        ssl_keystore_location="/key",
        ssl_keystore_type="PEM",
    )
    internal, other = tls_options(values, "INTERNAL"), tls_options(values, "OTHER")
    assert internal.key_store == KeyStoreOptions(PEM, "/internal")
    assert (internal.client_auth, internal.prefix) == ("required", "listener.name.internal.ssl.")
    assert other.key_store == KeyStoreOptions(PEM, "/key")
    assert (other.client_auth, other.prefix) == ("none", "ssl.")


@pytest.mark.parametrize(
    ("name", "client_auth"), [("ssl.client.auth", "none"), ("listener.name.sasl.ssl.client.auth", "required")]
)
def test_sasl_listener_takes_client_authentication_only_with_its_prefix(name: str, client_auth: str) -> None:
    values = settings(**{name: "required"})
    assert tls_options(values, "SASL", is_sasl=True).client_auth == client_auth
    assert tls_options(values, "SASL").client_auth == "required"


def test_protocol_applies_without_a_list() -> None:
    options = tls_options(settings(ssl_enabled_protocols="", ssl_protocol="TLSv1.2"), "SSL")
    assert (options.protocols, options.protocols_name) == (("TLSv1.2",), "protocol")
