"""Checks of TLS options and cipher suites, without files."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from tests.support.tls import client_options, key_store, server_certificate, server_options, trust_store

from odradek.model.secret import Secret
from odradek.security.tls.cipher_suites import (
    TLS_1_2_SUITES,
    TLS_1_3_SUITES,
    cipher_suite_problems,
    enabled_protocols,
    openssl_name,
)
from odradek.security.tls.tls_options import (
    JKS,
    PEM,
    PKCS12,
    KeyStoreOptions,
    TlsOptions,
    TrustStoreOptions,
    option_problems,
    protocols_of,
)

BOTH = ("TLSv1.2", "TLSv1.3")
SECRET = Secret("hidden-text")


def test_valid_options_have_no_problems() -> None:
    assert option_problems(server_options(client_auth="required"), server_side=True) == []
    assert option_problems(client_options(), server_side=False) == []
    assert option_problems(TlsOptions(), server_side=False) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        (
            {"protocols": ("TLSv1.1", "TLSv1.3")},
            "enabled.protocols: must be among TLSv1.2, TLSv1.3, got TLSv1.1",
        ),
        ({"protocols": ()}, "enabled.protocols: must be among TLSv1.2, TLSv1.3, got no value"),
        ({"client_auth": "maybe"}, "client.auth: must be one of none, requested, required, got maybe"),
        (
            {"client_auth": "required", "trust_store": TrustStoreOptions()},
            "truststore.location: required with client.auth=required",
        ),
        ({"key_store": KeyStoreOptions()}, "keystore.location: a TLS listener requires a private key"),
        ({"key_store": KeyStoreOptions("BCFKS", "/k")}, "keystore.type: must be PEM or PKCS12, got BCFKS"),
        ({"key_store": KeyStoreOptions(PKCS12, "/k")}, "keystore.password: required for the PKCS12 file /k"),
        ({"key_store": KeyStoreOptions(JKS, "/k")}, "keystore.password: required for the JKS file /k"),
        ({"key_store": KeyStoreOptions(PEM, "/k", SECRET)}, "keystore.password: must not be set for PEM"),
        (
            {"key_store": KeyStoreOptions(PEM, password=SECRET)},
            "keystore.password: requires ssl.keystore.location",
        ),
        (
            {"key_store": KeyStoreOptions(PEM, key=SECRET)},
            "keystore.certificate.chain: required with ssl.keystore.key",
        ),
        (
            {"key_store": KeyStoreOptions(PEM, certificate_chain=SECRET)},
            "keystore.key: required with ssl.keystore.certificate.chain",
        ),
        (
            {"key_store": KeyStoreOptions(JKS, key=SECRET, certificate_chain=SECRET)},
            "keystore.type: must be PEM with ssl.keystore.key and ssl.keystore.certificate.chain, got JKS",
        ),
        (
            {"key_store": KeyStoreOptions(PEM, "/k", key=SECRET, certificate_chain=SECRET)},
            "keystore.location: must not be set with ssl.keystore.key",
        ),
        ({"trust_store": TrustStoreOptions("X", "/t")}, "truststore.type: must be PEM or PKCS12, got X"),
        (
            {"trust_store": TrustStoreOptions(PEM, "/t", SECRET)},
            "truststore.password: must not be set for PEM",
        ),
        (
            {"trust_store": TrustStoreOptions(PEM, password=SECRET)},
            "truststore.password: requires ssl.truststore.location",
        ),
        (
            {"trust_store": TrustStoreOptions(PEM, "/t", certificates=SECRET)},
            "truststore.location: must not be set with ssl.truststore.certificates",
        ),
        ({"cipher_suites": ("TLS_RSA_WITH_NULL_SHA",)}, "cipher.suites: must be suites of TLS 1.2 or 1.3"),
    ],
)
def test_problems_name_the_setting(changes: dict[str, Any], problem: str) -> None:
    problems = option_problems(server_options(**changes), server_side=True)
    assert any(line.startswith(f"ssl.{problem}") for line in problems), problems
    assert "hidden-text" not in "".join(problems)


def test_endpoint_identification_is_checked_for_clients() -> None:
    assert option_problems(client_options(endpoint_identification="ldaps"), server_side=False) == [
        "ssl.endpoint.identification.algorithm: must be https or empty, got ldaps"
    ]
    assert client_options(endpoint_identification="HTTPS").checks_host_name
    assert not client_options(endpoint_identification="").checks_host_name


def test_prefix_of_the_settings_is_in_problems() -> None:
    options = TlsOptions(prefix="listener.name.a.ssl.")
    (problem,) = option_problems(options, server_side=True)
    assert problem.startswith("listener.name.a.ssl.keystore.location: ")


def test_protocol_applies_without_a_list() -> None:
    assert protocols_of(("TLSv1.2",), "TLSv1.3") == ("TLSv1.2",)
    assert protocols_of((), "TLSv1.3") == ("TLSv1.3",)
    assert protocols_of(None, "TLS") == BOTH


def test_options_show_no_secret() -> None:
    options = TlsOptions(key_store(server_certificate(), SECRET), trust_store())
    assert "PRIVATE" not in repr(options)
    assert "hidden-text" not in repr(options)


@pytest.mark.parametrize(
    ("suites", "protocols", "problem"),
    [
        ([], BOTH, None),
        (["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"], BOTH, None),
        (["ECDHE-RSA-AES256-GCM-SHA384"], ["TLSv1.2"], None),
        ([*TLS_1_3_SUITES, "ECDHE-RSA-AES256-GCM-SHA384"], BOTH, None),
        (TLS_1_3_SUITES[:1], ["TLSv1.2"], "must have a suite of TLSv1.2"),
        (TLS_1_3_SUITES[:1], BOTH, "must have all suites of TLS 1.3 or none"),
        (["ECDHE-RSA-AES256-GCM-SHA384"], ["TLSv1.3"], "must have a suite of TLSv1.3"),
        (["ALL"], BOTH, "must be suites of TLS 1.2 or 1.3 with encryption and authentication"),
        (["AES256-SHA:@SECLEVEL=0"], BOTH, "must be suites of"),
        (["ADH-AES256-SHA"], BOTH, "must be suites of"),
        (["NULL-SHA256"], BOTH, "must be suites of"),
        (["TLS_DH_anon_WITH_AES_128_CBC_SHA"], BOTH, "must be suites of"),
        (["SSL_RSA_WITH_RC4_128_MD5"], BOTH, "must be suites of"),
    ],
)
def test_cipher_suites(suites: list[str], protocols: list[str], problem: str | None) -> None:
    problems = cipher_suite_problems(suites, protocols)
    assert [line.startswith(problem or "") for line in problems] == ([] if problem is None else [True])


def test_suites_limit_the_protocols() -> None:
    assert enabled_protocols([], BOTH) == list(BOTH)
    assert enabled_protocols(["ECDHE-RSA-AES256-GCM-SHA384"], BOTH) == ["TLSv1.2"]
    assert enabled_protocols(TLS_1_3_SUITES, BOTH) == ["TLSv1.3"]


def test_table_has_names_that_openssl_knows() -> None:
    """Both names of a suite have the same code; those in the table encrypt and authenticate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    known = {cipher["name"]: cipher for cipher in context.get_ciphers()}
    assert set(known) >= TLS_1_2_SUITES
    for suite in TLS_1_2_SUITES:
        assert known[suite]["strength_bits"] >= 128
        assert known[suite]["auth"] in ("auth-rsa", "auth-ecdsa")
    assert openssl_name("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256") == "DHE-RSA-AES256-SHA256"
    assert openssl_name("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384") == "ECDHE-ECDSA-AES256-SHA384"
