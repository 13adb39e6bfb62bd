"""A broker with a listener for each security protocol, and what clients need to use them.

The PLAINTEXT listener is for set-up by the test. Users are ``alice`` and ``bob``; each password is the name
with ``-secret``.
"""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.support.broker import Broker, free_port
from tests.support.tls import authority, client_certificate, server_certificate

from odradek import Admin, ScramMechanism, UserScramCredentialUpsertion

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SASL_LISTENERS: Final = ("sasl_plaintext", "sasl_ssl")
USERS: Final = ("alice", "bob")
ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "kafka"
KEY_ID: Final = "test-key"


def password_of(user: str) -> str:
    return f"{user}-secret"


class Tokens:
    """Issues access tokens. The broker has the public key."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def key_set(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": KEY_ID, "alg": "RS256", "use": "sig"}
        return json.dumps({"keys": [key | {"n": _number(numbers.n), "e": _number(numbers.e)}]})

    def issue(self, user: str, lifetime_s: int = 3600, **claims: Any) -> str:
        now_s = int(time.time())
        content = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + lifetime_s}
        return jwt.encode(content | claims, self._key, algorithm="RS256", headers={"kid": KEY_ID})


class SecuredListeners:
    """Ports, certificates, tokens and users, as settings of a secured broker and options of its clients."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.tokens = Tokens()
        self.files = _write_certificates(directory)
        (directory / "keys.json").write_text(self.tokens.key_set())
        self._ports = {protocol: free_port() for protocol in ("PLAINTEXT", *PROTOCOLS)}

    def listener_settings(self) -> dict[str, str]:
        """Return the settings of listeners, TLS and SASL, with Kafka's names and meaning."""
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        users = " ".join(f'user_{user}="{password_of(user)}"' for user in USERS)
        settings = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.files["server"],
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.files["authority"],
            "ssl.client.auth": "requested",
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.directory}/keys.json",
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "sasl.oauthbearer.expected.issuer": ISSUER,
        }
        for listener in SASL_LISTENERS:
            settings[f"listener.name.{listener}.plain.sasl.jaas.config"] = f"{module} required {users};"
        return settings

    def bootstrap(self, protocol: str) -> str:
        return f"127.0.0.1:{self._ports[protocol]}"

    @property
    def ports(self) -> dict[str, int]:
        """Ports of all listeners by protocol."""
        return dict(self._ports)

    def options(self, protocol: str, mechanism: str | None = None, user: str = "alice") -> dict[str, Any]:
        """Return options for our clients and confluent-kafka: Kafka's names, and short ones of librdkafka."""
        options: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap(protocol),
            "security.protocol": protocol,
        }
        if protocol in {"SSL", "SASL_SSL"}:
            options["ssl.ca.location"] = self.files["authority"]
        if mechanism is not None:
            options["sasl.mechanism"] = mechanism
        if mechanism is not None and mechanism != "OAUTHBEARER":
            options |= {"sasl.username": user, "sasl.password": password_of(user)}
        return options


class SecuredBroker(SecuredListeners):
    """A broker process whose port depends on the protocol."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        super().__init__(directory)
        self.broker = Broker(directory / "broker", {})
        self.broker.port = self._ports["PLAINTEXT"]
        self.broker.settings |= self.listener_settings() | (settings or {})

    def start(self) -> SecuredBroker:
        self.broker.start()
        return self

    def stop(self) -> None:
        self.broker.stop()


def add_scram_users(broker: SecuredListeners, *users: str) -> None:
    """Add credentials of both SCRAM mechanisms; without users, for all of them."""
    with Admin(bootstrap_servers=broker.bootstrap("PLAINTEXT")) as admin:
        admin.alter_user_scram_credentials(
            [
                UserScramCredentialUpsertion(user, mechanism, password_of(user))
                for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
                for user in users or USERS
            ]
        )


def _write_certificates(directory: Path) -> dict[str, str]:
    """Write the certificates that tests need; return their paths."""
    server, client = server_certificate(), client_certificate()
    contents = {
        "authority": authority().certificate_pem,
        "server": server.key_pem() + server.certificate_pem,
        "client": client.key_pem() + client.certificate_pem,
        "client-certificate": client.certificate_pem,
        "client-key": client.key_pem(),
    }
    paths = {}
    for name, text in contents.items():
        path = directory / f"{name}.pem"
        path.write_text(text)
        paths[name] = str(path)
    return paths


def _number(value: int) -> str:
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
