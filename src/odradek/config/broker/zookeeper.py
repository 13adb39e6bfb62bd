"""The ZooKeeper session."""

from __future__ import annotations

from odradek.config.broker.unavailable_reasons import NO_ZOOKEEPER
from odradek.config.types import HIGH, LOW, MEDIUM, boolean, declared, int32, secret, text, words

ZOOKEEPER_CONNECT = text(
    "zookeeper.connect",
    None,
    HIGH,
    "Where the cluster's state lives: host:port, comma separated, with an optional path at the end. Not "
    "set, one broker keeps it in its own data directory.",
    refused=NO_ZOOKEEPER,
)

ZOOKEEPER_SESSION_TIMEOUT_MS = int32(
    "zookeeper.session.timeout.ms",
    18_000,
    HIGH,
    "A broker ZooKeeper has not heard of for this long counts as dead.",
    inert=True,
)

ZOOKEEPER_CONNECTION_TIMEOUT_MS = int32(
    "zookeeper.connection.timeout.ms",
    None,
    HIGH,
    "How long a starting broker waits for ZooKeeper; zookeeper.session.timeout.ms if not set.",
    inert=True,
)

ZOOKEEPER_SET_ACL = boolean(
    "zookeeper.set.acl", False, HIGH, "Whether nodes are created with access rules.", refused=NO_ZOOKEEPER
)

ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS = int32(
    "zookeeper.max.in.flight.requests",
    10,
    HIGH,
    "Unanswered requests to ZooKeeper at one time.",
    at_least=1,
    inert=True,
)

ZOOKEEPER_SSL_CLIENT_ENABLE = boolean(
    "zookeeper.ssl.client.enable",
    False,
    MEDIUM,
    "Whether ZooKeeper is spoken to over TLS.",
    refused=NO_ZOOKEEPER,
)

ZOOKEEPER_CLIENT_CNXN_SOCKET = text(
    "zookeeper.clientCnxnSocket", None, MEDIUM, "Java class of ZooKeeper connections.", inert=True
)

ZOOKEEPER_SSL_KEYSTORE_LOCATION = text(
    "zookeeper.ssl.keystore.location",
    None,
    MEDIUM,
    "File with this broker's key towards ZooKeeper.",
    inert=True,
)

ZOOKEEPER_SSL_KEYSTORE_PASSWORD = secret(
    "zookeeper.ssl.keystore.password", MEDIUM, "Password of that file.", inert=True
)

ZOOKEEPER_SSL_KEYSTORE_TYPE = text(
    "zookeeper.ssl.keystore.type", None, MEDIUM, "Format of that file.", inert=True
)

ZOOKEEPER_SSL_TRUSTSTORE_LOCATION = text(
    "zookeeper.ssl.truststore.location",
    None,
    MEDIUM,
    "File with the certificates trusted towards ZooKeeper.",
    inert=True,
)

ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD = secret(
    "zookeeper.ssl.truststore.password", MEDIUM, "Password of that file.", inert=True
)

ZOOKEEPER_SSL_TRUSTSTORE_TYPE = text(
    "zookeeper.ssl.truststore.type", None, MEDIUM, "Format of that file.", inert=True
)

ZOOKEEPER_SSL_PROTOCOL = text(
    "zookeeper.ssl.protocol", "TLSv1.2", LOW, "TLS version towards ZooKeeper.", inert=True
)

ZOOKEEPER_SSL_ENABLED_PROTOCOLS = words(
    "zookeeper.ssl.enabled.protocols", None, LOW, "TLS versions on offer towards ZooKeeper.", inert=True
)

ZOOKEEPER_SSL_CIPHER_SUITES = words(
    "zookeeper.ssl.cipher.suites", None, LOW, "Cipher suites on offer towards ZooKeeper.", inert=True
)

ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = text(
    "zookeeper.ssl.endpoint.identification.algorithm",
    "HTTPS",
    LOW,
    "How ZooKeeper's host name is checked.",
    inert=True,
)

ZOOKEEPER_SSL_CRL_ENABLE = boolean(
    "zookeeper.ssl.crl.enable",
    False,
    LOW,
    "Whether revocation lists are checked towards ZooKeeper.",
    inert=True,
)

ZOOKEEPER_SSL_OCSP_ENABLE = boolean(
    "zookeeper.ssl.ocsp.enable", False, LOW, "Whether OCSP is checked towards ZooKeeper.", inert=True
)

ZOOKEEPER_SETTINGS = declared(globals())
