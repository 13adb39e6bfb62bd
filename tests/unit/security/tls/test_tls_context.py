"""TLS contexts: what two of them agree on, and which certificates they refuse."""

from __future__ import annotations

import ssl
from typing import Any

import pytest
from cryptography.x509.oid import NameOID
from tests.support.tls import (
    EXPIRED,
    HOSTS,
    VALIDITY,
    authority,
    client_certificate,
    client_options,
    foreign_authority,
    key_store,
    name,
    read_nothing,
    server_certificate,
    server_options,
    trust_store,
)

from odradek.model.errors import ConfigError
from odradek.security.tls.certificates import (
    IssuedCertificate,
    make_authority,
    make_client_certificate,
    make_server_certificate,
)
from odradek.security.tls.cipher_suites import TLS_1_3_SUITES
from odradek.security.tls.tls_context import create_context
from odradek.security.tls.tls_error import TlsError
from odradek.security.tls.tls_options import TlsOptions, TrustStoreOptions
from odradek.security.tls.tls_stream import TlsStream


def connect(server: TlsOptions, client: TlsOptions, host: str = "localhost") -> tuple[TlsStream, TlsStream]:
    """Connect in memory until both sides are complete; raises the first error, that of the server first."""
    accepted = TlsStream(create_context(server, read_nothing, server_side=True), server_side=True)
    dialled = TlsStream(create_context(client, read_nothing, server_side=False), server_side=False, host=host)
    for _ in range(10):
        if accepted.is_complete and dialled.is_complete:
            return accepted, dialled
        for sender, receiver in ((dialled, accepted), (accepted, dialled)):
            output = sender.take_output()
            if output:
                receiver.receive(output)
    raise AssertionError("the handshake does not end")


def refusal(server: TlsOptions, client: TlsOptions, host: str = "localhost") -> str:
    with pytest.raises(TlsError) as caught:
        connect(server, client, host)
    return str(caught.value)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_versions_and_hosts(version: str, host: str) -> None:
    accepted, dialled = connect(server_options(protocols=(version,)), client_options(), host)
    assert accepted.version == dialled.version == version
    assert accepted.peer_name() is None
    assert dialled.peer_name() == "CN=localhost"


def test_server_name_indication_does_not_matter() -> None:
    options = client_options(endpoint_identification="")
    accepted, _ = connect(server_options(), options, "other.example.org")
    assert accepted.is_complete


def test_no_common_version() -> None:
    reason = refusal(server_options(protocols=("TLSv1.2",)), client_options(protocols=("TLSv1.3",)))
    assert reason == "no TLS version is enabled on both sides"


def test_no_common_cipher_suite() -> None:
    rsa = make_server_certificate(authority(), HOSTS, VALIDITY, uses_rsa=True)
    server = server_options(rsa, cipher_suites=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",))
    accepted, _ = connect(server, client_options(cipher_suites=("ECDHE-RSA-AES128-GCM-SHA256",)))
    assert (accepted.version, accepted.cipher_suite) == ("TLSv1.2", "ECDHE-RSA-AES128-GCM-SHA256")
    reason = refusal(server, client_options(cipher_suites=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",)))
    assert reason == "no cipher suite is enabled on both sides"


def test_suites_of_tls_1_3_disable_older_versions() -> None:
    accepted, _ = connect(server_options(cipher_suites=TLS_1_3_SUITES), client_options())
    assert accepted.version == "TLSv1.3"
    server = server_options(cipher_suites=TLS_1_3_SUITES)
    assert (
        refusal(server, client_options(protocols=("TLSv1.2",))) == "no TLS version is enabled on both sides"
    )


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_client_certificates(version: str) -> None:
    client = client_options(client_certificate(), protocols=(version,))
    for client_auth, principal in (("none", None), ("requested", "CN=alice"), ("required", "CN=alice")):
        accepted, _ = connect(server_options(client_auth=client_auth), client)
        assert accepted.peer_name() == principal
    anonymous = client_options(protocols=(version,))
    accepted, _ = connect(server_options(client_auth="requested"), anonymous)
    assert accepted.peer_name() is None
    assert refusal(server_options(client_auth="required"), anonymous) == "the client sent no certificate"


def foreign_client() -> IssuedCertificate:
    return make_client_certificate(foreign_authority(), "alice", VALIDITY)


@pytest.mark.parametrize("client_auth", ["requested", "required"])
@pytest.mark.parametrize(
    ("certificate", "reason"),
    [
        (foreign_client(), "unable to get local issuer certificate"),
        (make_client_certificate(authority(), "alice", EXPIRED), "certificate has expired"),
        (make_authority("alice", VALIDITY), "self-signed certificate"),
    ],
)
def test_unacceptable_client_certificates(
    client_auth: str, certificate: IssuedCertificate, reason: str
) -> None:
    refused = refusal(server_options(client_auth=client_auth), client_options(certificate))
    assert refused == f"the certificate of the peer is not accepted: {reason}"


def test_certificate_of_a_client_cannot_be_that_of_a_server() -> None:
    options = server_options(client_certificate())
    assert "unsuitable certificate purpose" in refusal(options, client_options(endpoint_identification=""))


@pytest.mark.parametrize(
    ("certificate", "host", "reason"),
    [
        (make_server_certificate(authority(), HOSTS, EXPIRED), "localhost", "certificate has expired"),
        (
            make_server_certificate(foreign_authority(), HOSTS, VALIDITY),
            "localhost",
            "unable to get local issuer certificate",
        ),
        (
            server_certificate(),
            "example.org",
            "Hostname mismatch, certificate is not valid for 'example.org'.",
        ),
        (
            server_certificate(),
            "127.0.0.2",
            "IP address mismatch, certificate is not valid for '127.0.0.2'.",
        ),
    ],
)
def test_unacceptable_server_certificates(certificate: IssuedCertificate, host: str, reason: str) -> None:
    refused = refusal(server_options(certificate), client_options(), host)
    assert refused == f"the certificate of the peer is not accepted: {reason}"


def test_without_endpoint_identification_the_chain_is_still_verified() -> None:
    options = server_options(make_server_certificate(foreign_authority(), HOSTS, VALIDITY))
    assert "issuer" in refusal(options, client_options(endpoint_identification=""))


def test_intermediate_authorities_are_sent_and_may_be_trusted() -> None:
    intermediate = make_authority("Intermediate", VALIDITY, authority())
    server = server_options(make_server_certificate(intermediate, HOSTS, VALIDITY))
    connect(server, client_options())
    connect(server, client_options(trust_store=trust_store(intermediate)))


def test_certificate_may_be_trusted_by_itself() -> None:
    connect(server_options(), client_options(trust_store=trust_store(server_certificate())))


def test_clients_without_trust_store_trust_the_system() -> None:
    reason = refusal(server_options(), client_options(trust_store=TrustStoreOptions()))
    assert "self-signed certificate" in reason


def test_name_of_the_client_is_complete() -> None:
    subject = name(
        (NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "A, B"), (NameOID.COMMON_NAME, "a")
    )
    client = client_options(make_client_certificate(authority(), subject, VALIDITY))
    accepted, _ = connect(server_options(client_auth="required"), client)
    assert accepted.peer_name() == "CN=a,O=A\\, B,C=DE"


def test_context_is_strict() -> None:
    context = create_context(server_options(), read_nothing, server_side=True)
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.options & ssl.OP_NO_COMPRESSION
    assert context.num_tickets == 0
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert create_context(TlsOptions(), read_nothing, server_side=False).verify_mode == ssl.CERT_REQUIRED


@pytest.mark.parametrize(
    "changes",
    [
        {"protocols": ("SSLv3",)},
        {"client_auth": "maybe"},
        {"key_store": key_store(server_certificate())._replace(type="X")},
    ],
)
def test_options_with_problems_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        create_context(server_options(**changes), read_nothing, server_side=True)
