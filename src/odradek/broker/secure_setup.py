"""``odradek serve --secure``: an authority, a server certificate and a first user, made once.

The files are beside the data, readable by their owner alone. ``client.properties`` is written last: if it is
missing, an earlier attempt was interrupted, and everything is made again.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from pathlib import Path
from typing import Final, NamedTuple

CLIENT_PROPERTIES: Final = "client.properties"
ADMIN: Final = "admin"
VALID_DAYS: Final = 825
"""The longest validity that operating systems accept for a server certificate."""

_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"


class SecureSetup(NamedTuple):
    """Settings of a secured broker, and the properties file of its first client."""

    settings: list[str]
    client_properties: Path
    is_new: bool


def prepare(directory: Path, host: str) -> SecureSetup:
    """Return the setup in a directory; make it if there is none. Raises OSError."""
    path = directory / CLIENT_PROPERTIES
    is_new = not path.exists()
    if is_new:
        _make(directory, host)
    password = (directory / "users").read_text().strip().partition(":")[2].partition("\n")[0]
    return SecureSetup(_settings(directory, password), path, is_new)


def _settings(directory: Path, password: str) -> list[str]:
    return [
        "security.inter.broker.protocol=SASL_SSL",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"listener.name.sasl_ssl.plain.sasl.jaas.config={_jaas_config(password)}",
        f"odradek.sasl.plain.users.file={directory / 'users'}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={directory / 'server.pem'}",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={directory / 'authority.pem'}",
        "authorizer.class.name=kafka.security.authorizer.AclAuthorizer",
        f"super.users=User:{ADMIN}",
    ]


def _jaas_config(password: str) -> str:
    return f'{_MODULE} required username="{ADMIN}" password="{password}";'


def _make(directory: Path, host: str) -> None:
    from odradek.security.tls.certificates import Validity, make_authority, make_server_certificate

    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    validity = Validity.of_days(time.time_ns() // 1_000_000, VALID_DAYS)
    authority = make_authority("Odradek authority", validity)
    hosts = dict.fromkeys(["localhost", "127.0.0.1", "::1", socket.gethostname(), host])
    server = make_server_certificate(
        authority, [name for name in hosts if name not in ("", "0.0.0.0")], validity
    )
    password = secrets.token_urlsafe(24)
    _write(directory / "authority.pem", authority.certificate_pem)
    _write(directory / "authority-key.pem", authority.key_pem())
    _write(directory / "server.pem", server.key_store_pem())
    _write(directory / "users", f"{ADMIN}:{password}\n")
    _write(directory / CLIENT_PROPERTIES, _client_properties(directory, password))


def _client_properties(directory: Path, password: str) -> str:
    return (
        "# Options of a client that may do everything. Keep this file secret.\n"
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={directory.absolute() / 'authority.pem'}\n"
        "sasl.mechanism=PLAIN\n"
        f"sasl.jaas.config={_jaas_config(password)}\n"
    )


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, completely or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
