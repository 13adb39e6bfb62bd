"""Settings of the ZooKeeper client."""

from __future__ import annotations

from odradek.config.broker.unavailable_reasons import NO_CIPHER_SUITES, NO_REVOCATION
from odradek.config.types import HIGH, LOW, MEDIUM, boolean, declared, int32, password, string, string_list

ZOOKEEPER_CONNECT = string(
    "zookeeper.connect",
    None,
    HIGH,
    "ZooKeeper servers: host:port, comma-separated, with an optional path at the end. If not set, a "
    "single broker keeps the cluster's state in its log directory.",
)

ZOOKEEPER_SESSION_TIMEOUT_MS = int32(
    "zookeeper.session.timeout.ms",
    18_000,
    HIGH,
    "ZooKeeper session timeout, after which a broker is considered dead.",
)

ZOOKEEPER_CONNECTION_TIMEOUT_MS = int32(
    "zookeeper.connection.timeout.ms",
    None,
    HIGH,
    "Time a starting broker waits for ZooKeeper; zookeeper.session.timeout.ms if not set.",
)

ZOOKEEPER_SET_ACL = boolean("zookeeper.set.acl", False, HIGH, "Whether znodes are created with ACLs.")

ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS = int32(
    "zookeeper.max.in.flight.requests",
    10,
    HIGH,
    "Maximum number of unacknowledged requests to ZooKeeper.",
    at_least=1,
)

ZOOKEEPER_SSL_CLIENT_ENABLE = boolean(
    "zookeeper.ssl.client.enable",
    False,
    MEDIUM,
    "Whether connections to ZooKeeper use TLS.",
)

ZOOKEEPER_CLIENT_CNXN_SOCKET = string(
    "zookeeper.clientCnxnSocket", None, MEDIUM, "Java class of ZooKeeper connections.", inert=True
)

ZOOKEEPER_SSL_KEYSTORE_LOCATION = string(
    "zookeeper.ssl.keystore.location",
    None,
    MEDIUM,
    "Key store file for ZooKeeper: private key and certificate chain.",
)

ZOOKEEPER_SSL_KEYSTORE_PASSWORD = password(
    "zookeeper.ssl.keystore.password", MEDIUM, "Password of the key store for ZooKeeper."
)

ZOOKEEPER_SSL_KEYSTORE_TYPE = string(
    "zookeeper.ssl.keystore.type",
    None,
    MEDIUM,
    "Format of the key store for ZooKeeper. PEM is supported, JKS is not.",
)

ZOOKEEPER_SSL_TRUSTSTORE_LOCATION = string(
    "zookeeper.ssl.truststore.location",
    None,
    MEDIUM,
    "Trust store file for ZooKeeper: the trusted certificates.",
)

ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD = password(
    "zookeeper.ssl.truststore.password",
    MEDIUM,
    "Password of the trust store for ZooKeeper. Not needed for PEM.",
)

ZOOKEEPER_SSL_TRUSTSTORE_TYPE = string(
    "zookeeper.ssl.truststore.type",
    None,
    MEDIUM,
    "Format of the trust store for ZooKeeper. PEM is supported, JKS is not.",
)

ZOOKEEPER_SSL_PROTOCOL = string("zookeeper.ssl.protocol", "TLSv1.2", LOW, "TLS version for ZooKeeper.")

ZOOKEEPER_SSL_ENABLED_PROTOCOLS = string_list(
    "zookeeper.ssl.enabled.protocols", None, LOW, "Enabled TLS versions for ZooKeeper."
)

ZOOKEEPER_SSL_CIPHER_SUITES = string_list(
    "zookeeper.ssl.cipher.suites",
    None,
    LOW,
    "Enabled cipher suites for ZooKeeper.",
    unavailable=NO_CIPHER_SUITES,
)

ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = string(
    "zookeeper.ssl.endpoint.identification.algorithm",
    "HTTPS",
    LOW,
    "Algorithm that verifies ZooKeeper's host name.",
)

ZOOKEEPER_SSL_CRL_ENABLE = boolean(
    "zookeeper.ssl.crl.enable",
    False,
    LOW,
    "Whether certificate revocation lists are checked for ZooKeeper.",
    unavailable=NO_REVOCATION,
)

ZOOKEEPER_SSL_OCSP_ENABLE = boolean(
    "zookeeper.ssl.ocsp.enable", False, LOW, "Whether OCSP is used for ZooKeeper.", unavailable=NO_REVOCATION
)

ZOOKEEPER_SETTINGS = declared(globals())
