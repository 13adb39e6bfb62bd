"""Options from the ``zookeeper.*`` settings, and the errors for those that are not supported."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from odradek.config import broker
from odradek.config.definition import Settings, parse_settings
from odradek.model.errors import ConfigError
from odradek.store.zookeeper.connect_string import ConnectString
from odradek.store.zookeeper.options import read_options

CERTIFICATES = Path(__file__).parents[3] / "support" / "certificates"
AUTHORITY, CLIENT = str(CERTIFICATES / "authority.pem"), str(CERTIFICATES / "client.pem")
ENCRYPTED_CLIENT = str(CERTIFICATES / "client-encrypted.pem")


def settings(**values: str) -> Settings:
    raw = {
        "zookeeper.connect": "zk:2181",
        **{name.replace("_", "."): value for name, value in values.items()},
    }
    return parse_settings(broker.BY_NAME, raw)


def problems(**values: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as raised:
        read_options(settings(**values))
    return raised.value.problems


def test_defaults_are_kafkas() -> None:
    options = read_options(settings())
    assert options.connect == ConnectString(("zk:2181",), "")
    assert (options.session_timeout_ms, options.connection_timeout_ms) == (18_000, 18_000)
    assert (options.in_flight_max, options.sets_acl, options.credentials, options.tls) == (
        10,
        False,
        None,
        None,
    )


def test_settings_become_options() -> None:
    options = read_options(
        settings(
            zookeeper_connect="a,b:2/kafka",
            zookeeper_session_timeout_ms="6000",
            zookeeper_connection_timeout_ms="7000",
            zookeeper_max_in_flight_requests="50",
            zookeeper_set_acl="true",
            odradek_zookeeper_digest_credentials="kafka:secret:with:colons",
        )
    )
    assert options.connect == ConnectString(("a:2181", "b:2"), "/kafka")
    assert (options.session_timeout_ms, options.connection_timeout_ms) == (6000, 7000)
    assert (options.in_flight_max, options.sets_acl) == (50, True)
    assert options.credentials is not None
    assert options.credentials.reveal() == "kafka:secret:with:colons"
    assert "secret" not in repr(options)


def test_invalid_values_are_reported_together_with_their_settings() -> None:
    lines = problems(
        zookeeper_connect="zk:port",
        zookeeper_session_timeout_ms="0",
        zookeeper_connection_timeout_ms="1",
        zookeeper_set_acl="true",
        zookeeper_ssl_client_enable="true",
        zookeeper_ssl_keystore_location="/keys/broker.p12",
        zookeeper_ssl_truststore_location="/keys/ca.store",
        zookeeper_ssl_protocol="SSLv3",
        zookeeper_ssl_endpoint_identification_algorithm="LDAPS",
    )
    assert lines == (
        "zookeeper.connect: port must be between 1 and 65535, got 'zk:port'",
        "zookeeper.ssl.protocol: must be among TLSv1.2, TLSv1.3, got SSLv3",
        "zookeeper.ssl.keystore.password: required for the PKCS12 file /keys/broker.p12",
        "zookeeper.ssl.truststore.type: must be PEM or PKCS12, got no value",
        "zookeeper.ssl.endpoint.identification.algorithm: must be https or empty, got ldaps",
        "zookeeper.session.timeout.ms: must be at least 1, got 0",
    )


def test_acls_require_an_authenticated_session() -> None:
    assert problems(zookeeper_set_acl="true") == (
        "zookeeper.set.acl: requires an authenticated session. Set odradek.zookeeper.digest.credentials, or "
        "zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location",
    )
    assert problems(odradek_zookeeper_digest_credentials="no-colon") == (
        "odradek.zookeeper.digest.credentials: must be user:password",
    )


def test_tls_files_are_loaded() -> None:
    tls = read_options(
        settings(
            zookeeper_ssl_client_enable="true",
            zookeeper_ssl_keystore_location=CLIENT,
            zookeeper_ssl_keystore_password="wrong for a plain key, and not needed",
            zookeeper_ssl_truststore_location=AUTHORITY,
            zookeeper_set_acl="true",
        )
    ).tls
    assert tls is not None
    assert (tls.check_hostname, tls.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert (tls.minimum_version, tls.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    assert len(tls.get_ca_certs()) == 1


def test_enabled_protocols_and_host_name_check_are_configurable() -> None:
    tls = read_options(
        settings(
            zookeeper_ssl_client_enable="true",
            zookeeper_ssl_enabled_protocols="TLSv1.3,TLSv1.2",
            zookeeper_ssl_endpoint_identification_algorithm="",
        )
    ).tls
    assert tls is not None
    assert not tls.check_hostname
    assert (tls.minimum_version, tls.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)


def test_unreadable_files_are_reported_with_their_setting(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.pem")
    (line,) = problems(zookeeper_ssl_client_enable="true", zookeeper_ssl_truststore_location=missing)
    assert line.startswith(f"zookeeper.ssl.truststore.location: {missing} cannot be loaded: ")
    (line,) = problems(zookeeper_ssl_client_enable="true", zookeeper_ssl_keystore_location=AUTHORITY)
    assert line == (
        f"zookeeper.ssl.keystore.location: {AUTHORITY}: exactly one private key in PEM format is required, "
        "got 0"
    )
    (line,) = problems(zookeeper_ssl_client_enable="true", zookeeper_ssl_keystore_location=ENCRYPTED_CLIENT)
    assert line == (
        "zookeeper.ssl.keystore.password: required, because the private key of "
        f"zookeeper.ssl.keystore.location: {ENCRYPTED_CLIENT} is encrypted"
    )


def test_password_opens_an_encrypted_key() -> None:
    tls = read_options(
        settings(
            zookeeper_ssl_client_enable="true",
            zookeeper_ssl_keystore_location=ENCRYPTED_CLIENT,
            zookeeper_ssl_keystore_password="secret",
        )
    ).tls
    assert tls is not None
