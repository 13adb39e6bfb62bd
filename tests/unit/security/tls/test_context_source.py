"""Contexts that are replaced while connections are accepted: reloads, refusals, Kafka's rules for names."""

from __future__ import annotations

import pytest
from cryptography.x509.oid import NameOID
from tests.support.tls import (
    HOSTS,
    VALIDITY,
    authority,
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
from odradek.security.tls.certificate_changes import certificate_change_problems
from odradek.security.tls.certificates import IssuedCertificate, make_server_certificate
from odradek.security.tls.context_source import (
    ChangeRules,
    ReloadResult,
    TlsContextSource,
    handshake_problem,
)
from odradek.security.tls.distinguished_name import CertificateNames
from odradek.security.tls.tls_context import create_context
from odradek.security.tls.tls_options import PEM, KeyStoreOptions, TlsOptions, TrustStoreOptions

OPTIONS = TlsOptions(KeyStoreOptions(PEM, "/key"), TrustStoreOptions(PEM, "/trust"))
RENEWED = make_server_certificate(authority(), HOSTS, VALIDITY)
MORE_HOSTS = make_server_certificate(authority(), (*HOSTS, "kafka.example.org"), VALIDITY)
FEWER_HOSTS = make_server_certificate(authority(), HOSTS[:2], VALIDITY)
OTHER_NAME = make_server_certificate(
    authority(), HOSTS, VALIDITY, name((NameOID.ORGANIZATION_NAME, "o"), (NameOID.COMMON_NAME, "localhost"))
)
FOREIGN = make_server_certificate(foreign_authority(), HOSTS, VALIDITY)


class Files:
    """Files of a key store and a trust store."""

    def __init__(self, certificate: IssuedCertificate, trusted: IssuedCertificate | None = None) -> None:
        self.contents: dict[str, bytes] = {}
        self.reads = 0
        self.write(certificate, trusted)

    def write(self, certificate: IssuedCertificate, trusted: IssuedCertificate | None = None) -> None:
        self.contents["/key"] = certificate.key_store_pem().encode()
        self.contents["/trust"] = (trusted or authority()).certificate_pem.encode()

    def read(self, path: str) -> bytes:
        self.reads += 1
        return self.contents[path] if path in self.contents else read_nothing(path)

    def source(self, rules: ChangeRules | None = ChangeRules(), **options: bool) -> TlsContextSource:  # noqa: B008
        return TlsContextSource(OPTIONS, self.read, server_side=True, rules=rules, **options)


def serves(source: TlsContextSource, trusted: IssuedCertificate | None = None) -> bool:
    """Return whether a client that trusts this authority can connect."""
    options = client_options(trust_store=trust_store(trusted), endpoint_identification="")
    return handshake_problem(source.context, create_context(options, read_nothing, server_side=False)) is None


def test_unchanged_files_keep_the_context() -> None:
    source = Files(server_certificate()).source()
    context = source.context
    assert source.reload() == ReloadResult(False)
    assert source.context is context
    assert serves(source)


def test_changed_certificate_is_used_by_new_connections() -> None:
    files = Files(server_certificate())
    source = files.source()
    context = source.context
    files.write(RENEWED)
    assert source.reload() == ReloadResult(True)
    assert source.context is not context
    assert serves(source)
    assert source.reload() == ReloadResult(False)


def test_changed_trust_store_is_used() -> None:
    files = Files(server_certificate())
    source = files.source()
    context = source.context
    files.write(server_certificate(), foreign_authority())
    assert source.reload() == ReloadResult(True)
    assert source.context is not context
    assert [entry["subject"] for entry in source.context.get_ca_certs()] == [
        ((("commonName", "Foreign authority"),),)
    ]


def test_failed_reload_keeps_the_context_and_is_reported_once() -> None:
    files = Files(server_certificate())
    source = files.source()
    context = source.context
    # Files are replaced one after the other: key and certificate do not match in between.
    files.contents["/key"] = (RENEWED.key_pem() + server_certificate().certificate_pem).encode()
    result = source.reload()
    assert not result.is_replaced
    assert "does not belong to the certificate" in result.problems[0]
    assert source.reload() == ReloadResult(False)
    assert source.context is context
    assert serves(source)
    del files.contents["/key"]
    assert "cannot be loaded" in source.reload().problems[0]
    files.write(RENEWED)
    assert source.reload() == ReloadResult(True)


def test_files_that_cannot_be_read_at_the_start_are_an_error() -> None:
    files = Files(server_certificate())
    del files.contents["/trust"]
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location: /trust cannot be loaded"):
        files.source()


@pytest.mark.parametrize(
    ("certificate", "rules", "problem"),
    [
        (MORE_HOSTS, ChangeRules(), None),
        (FEWER_HOSTS, ChangeRules(), "ssl.allow.san.changes=false): 1 of 3 are missing"),
        (FEWER_HOSTS, ChangeRules(allow_dn=True), "ssl.allow.san.changes=false"),
        (FEWER_HOSTS, ChangeRules(allow_san=True), None),
        (OTHER_NAME, ChangeRules(), "ssl.allow.dn.changes=false): it was CN=localhost, got CN=localhost,O=o"),
        (OTHER_NAME, ChangeRules(allow_san=True), "ssl.allow.dn.changes=false"),
        (OTHER_NAME, ChangeRules(allow_dn=True), None),
        (OTHER_NAME, None, None),
    ],
)
def test_names_in_a_certificate_must_not_change(
    certificate: IssuedCertificate, rules: ChangeRules | None, problem: str | None
) -> None:
    files = Files(server_certificate())
    source = files.source(rules)
    names = source.certificate_names
    files.write(certificate)
    result = source.reload()
    assert result.is_replaced == (problem is None)
    assert (source.certificate_names == names) == (problem is not None)
    assert problem is None or problem in result.problems[0]


def test_comparison_of_names() -> None:
    def problems(old: CertificateNames | None, new: CertificateNames | None) -> int:
        return len(certificate_change_problems(old, new, allow_dn=False, allow_san=False))

    names = CertificateNames("CN=Broker  1,O=x", frozenset({b"a", b"b"}))
    assert problems(names, names) == 0
    assert problems(names, CertificateNames("cn=broker 1,O=X", names.alternatives)) == 0
    assert problems(names, CertificateNames("CN=Broker 2,O=x", frozenset({b"a"}))) == 2
    assert problems(None, None) == 0
    assert problems(names, None) == 1
    assert problems(None, names) == 1


def test_listener_between_brokers_must_accept_its_own_certificate() -> None:
    with pytest.raises(ConfigError, match="must be accepted by its own trust store"):
        Files(FOREIGN).source(connects_to_itself=True)
    files = Files(server_certificate())
    source = files.source(connects_to_itself=True)
    files.write(RENEWED)
    assert source.reload() == ReloadResult(True)


def test_new_certificate_must_be_accepted_by_brokers_with_the_previous_files() -> None:
    files = Files(server_certificate())
    source = files.source(connects_to_itself=True)
    files.write(FOREIGN, foreign_authority())
    (problem,) = source.reload().problems
    assert "brokers could not connect to each other" in problem
    assert serves(source)
    # In two steps it is possible: first the trust store, on all brokers.
    files.write(server_certificate())
    files.contents["/trust"] += foreign_authority().certificate_pem.encode()
    assert source.reload() == ReloadResult(True)
    files.contents["/key"] = FOREIGN.key_store_pem().encode()
    assert source.reload() == ReloadResult(True)


def test_both_ways_between_brokers_are_checked_while_files_differ() -> None:
    both = authority().certificate_pem + foreign_authority().certificate_pem
    files = Files(server_certificate())
    source = files.source(connects_to_itself=True)
    # Brokers with the previous trust store do not accept the new certificate yet.
    files.write(FOREIGN)
    files.contents["/trust"] = both.encode()
    assert not source.reload().is_replaced
    # The new trust store does not accept brokers with the previous certificate any more.
    files.write(server_certificate())
    files.contents["/trust"] = both.encode()
    assert source.reload().is_replaced
    files.write(FOREIGN, foreign_authority())
    assert not source.reload().is_replaced


def test_changed_options() -> None:
    source = TlsContextSource(server_options(), read_nothing, server_side=True, rules=ChangeRules())
    assert source.check(server_options(RENEWED)) == []
    assert "ssl.allow.san.changes" in source.check(server_options(FEWER_HOSTS))[0]
    context = source.context
    with pytest.raises(ConfigError):
        source.replace(server_options(protocols=()))
    assert source.context is context
    source.replace(server_options(RENEWED))
    assert source.context is not context
    assert source.reload() == ReloadResult(False)


def test_trust_store_cannot_be_added() -> None:
    options = server_options(trust_store=TrustStoreOptions())
    source = TlsContextSource(options, read_nothing, server_side=True, rules=ChangeRules())
    assert source.check(server_options()) == [
        "a trust store cannot be added to a listener while the broker runs"
    ]


def test_clients_may_add_a_key_store() -> None:
    source = TlsContextSource(client_options(), read_nothing, server_side=False)
    assert source.certificate_names is None
    source.replace(client_options()._replace(key_store=key_store(server_certificate())))
    assert source.certificate_names is not None
