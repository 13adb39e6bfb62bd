"""TLS and SASL: every option is known and checked, and has no effect while connections are plain.

Only ``security.protocol=PLAINTEXT`` can be chosen yet; with it Kafka's clients pass these over too.
"""

from __future__ import annotations

from odradek.config.types import (
    HIGH,
    LOW,
    MEDIUM,
    boolean,
    class_name,
    declared,
    double,
    int16,
    int32,
    int64,
    secret,
    text,
    words,
)

SECURITY_PROVIDERS = text("security.providers", None, LOW, "Java security providers to load.", inert=True)

SSL_PROTOCOL = text("ssl.protocol", "TLSv1.3", MEDIUM, "Newest TLS version to negotiate.", inert=True)

SSL_PROVIDER = text("ssl.provider", None, MEDIUM, "Java provider of TLS.", inert=True)

SSL_ENABLED_PROTOCOLS = words(
    "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), MEDIUM, "TLS versions on offer.", inert=True
)

SSL_KEYSTORE_TYPE = text("ssl.keystore.type", "JKS", MEDIUM, "Format of the key store.", inert=True)

SSL_KEYSTORE_LOCATION = text(
    "ssl.keystore.location", None, HIGH, "File with this client's key and certificate.", inert=True
)

SSL_KEYSTORE_PASSWORD = secret("ssl.keystore.password", HIGH, "Password of that file.", inert=True)

SSL_KEY_PASSWORD = secret("ssl.key.password", HIGH, "Password of the private key.", inert=True)

SSL_KEYSTORE_KEY = secret(
    "ssl.keystore.key", HIGH, "Private key as PEM text, in place of a file.", inert=True
)

SSL_KEYSTORE_CERTIFICATE_CHAIN = secret(
    "ssl.keystore.certificate.chain", HIGH, "Certificates as PEM text, in place of a file.", inert=True
)

SSL_TRUSTSTORE_TYPE = text("ssl.truststore.type", "JKS", MEDIUM, "Format of the trust store.", inert=True)

SSL_TRUSTSTORE_LOCATION = text(
    "ssl.truststore.location", None, HIGH, "File with the certificates that are trusted.", inert=True
)

SSL_TRUSTSTORE_PASSWORD = secret("ssl.truststore.password", HIGH, "Password of that file.", inert=True)

SSL_TRUSTSTORE_CERTIFICATES = secret(
    "ssl.truststore.certificates", HIGH, "Trusted certificates as PEM text, in place of a file.", inert=True
)

SSL_KEYMANAGER_ALGORITHM = text(
    "ssl.keymanager.algorithm", "SunX509", LOW, "Java key manager algorithm.", inert=True
)

SSL_TRUSTMANAGER_ALGORITHM = text(
    "ssl.trustmanager.algorithm", "PKIX", LOW, "Java trust manager algorithm.", inert=True
)

SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = text(
    "ssl.endpoint.identification.algorithm",
    "https",
    LOW,
    "How a broker's host name is checked; empty turns the check off.",
    inert=True,
)

SSL_SECURE_RANDOM_IMPLEMENTATION = text(
    "ssl.secure.random.implementation", None, LOW, "Java random number generator for TLS.", inert=True
)

SSL_CIPHER_SUITES = words(
    "ssl.cipher.suites", None, LOW, "Cipher suites on offer; none leaves the library's choice.", inert=True
)

SSL_ENGINE_FACTORY_CLASS = class_name(
    "ssl.engine.factory.class", None, LOW, "Java class that makes TLS engines.", inert=True
)

SASL_MECHANISM = text(
    "sasl.mechanism", "GSSAPI", MEDIUM, "SASL mechanism by which this client says who it is.", inert=True
)

SASL_JAAS_CONFIG = secret(
    "sasl.jaas.config", MEDIUM, "Name and password of that mechanism, in JAAS form.", inert=True
)

SASL_CLIENT_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.client.callback.handler.class",
    None,
    MEDIUM,
    "Java class that answers a mechanism's questions.",
    inert=True,
)

SASL_LOGIN_CLASS = class_name("sasl.login.class", None, MEDIUM, "Java class that logs in.", inert=True)

SASL_LOGIN_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.login.callback.handler.class", None, MEDIUM, "Java login callback class.", inert=True
)

SASL_KERBEROS_SERVICE_NAME = text(
    "sasl.kerberos.service.name", None, MEDIUM, "Kerberos name of the brokers.", inert=True
)

SASL_KERBEROS_KINIT_CMD = text(
    "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", LOW, "Path of the program kinit.", inert=True
)

SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR = double(
    "sasl.kerberos.ticket.renew.window.factor",
    0.8,
    LOW,
    "When Kerberos tickets are renewed, as a share of their life.",
    inert=True,
)

SASL_KERBEROS_TICKET_RENEW_JITTER = double(
    "sasl.kerberos.ticket.renew.jitter", 0.05, LOW, "Randomness of that renewal.", inert=True
)

SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = int64(
    "sasl.kerberos.min.time.before.relogin",
    60_000,
    LOW,
    "Shortest time between two Kerberos logins.",
    inert=True,
)

SASL_LOGIN_REFRESH_WINDOW_FACTOR = double(
    "sasl.login.refresh.window.factor",
    0.8,
    LOW,
    "When an OAuth login is refreshed, as a share of its life.",
    at_least=0.5,
    at_most=1.0,
    inert=True,
)

SASL_LOGIN_REFRESH_WINDOW_JITTER = double(
    "sasl.login.refresh.window.jitter",
    0.05,
    LOW,
    "Randomness of that refresh.",
    at_least=0.0,
    at_most=0.25,
    inert=True,
)

SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = int16(
    "sasl.login.refresh.min.period.seconds",
    60,
    LOW,
    "Shortest time between two such refreshes.",
    at_least=0,
    at_most=900,
    inert=True,
)

SASL_LOGIN_REFRESH_BUFFER_SECONDS = int16(
    "sasl.login.refresh.buffer.seconds",
    300,
    LOW,
    "How long before its end a login is refreshed.",
    at_least=0,
    at_most=3600,
    inert=True,
)

SASL_LOGIN_CONNECT_TIMEOUT_MS = int32(
    "sasl.login.connect.timeout.ms", None, LOW, "Connect timeout towards a token provider.", inert=True
)

SASL_LOGIN_READ_TIMEOUT_MS = int32(
    "sasl.login.read.timeout.ms", None, LOW, "Read timeout towards a token provider.", inert=True
)

SASL_LOGIN_RETRY_BACKOFF_MS = int64(
    "sasl.login.retry.backoff.ms", 100, LOW, "First wait after a failed token request.", inert=True
)

SASL_LOGIN_RETRY_BACKOFF_MAX_MS = int64(
    "sasl.login.retry.backoff.max.ms", 10_000, LOW, "Longest wait after failed token requests.", inert=True
)

SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = text(
    "sasl.oauthbearer.scope.claim.name", "scope", LOW, "Claim of a token that holds its scope.", inert=True
)

SASL_OAUTHBEARER_SUB_CLAIM_NAME = text(
    "sasl.oauthbearer.sub.claim.name", "sub", LOW, "Claim of a token that holds its subject.", inert=True
)

SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = text(
    "sasl.oauthbearer.token.endpoint.url", None, MEDIUM, "Where tokens are fetched.", inert=True
)

SASL_OAUTHBEARER_HEADER_URLENCODE = boolean(
    "sasl.oauthbearer.header.urlencode",
    False,
    LOW,
    "Whether name and secret are URL-encoded when a token is fetched.",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = text(
    "sasl.oauthbearer.jwks.endpoint.url",
    None,
    MEDIUM,
    "Where the keys that sign tokens are found.",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    3_600_000,
    LOW,
    "How often those keys are read again.",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    100,
    LOW,
    "First wait after reading them failed.",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    10_000,
    LOW,
    "Longest wait after reading them failed.",
    inert=True,
)

SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = int32(
    "sasl.oauthbearer.clock.skew.seconds",
    30,
    LOW,
    "Difference between clocks that is forgiven when a token is checked.",
    inert=True,
)

SASL_OAUTHBEARER_EXPECTED_AUDIENCE = words(
    "sasl.oauthbearer.expected.audience", None, LOW, "Audiences one of which a token must name.", inert=True
)

SASL_OAUTHBEARER_EXPECTED_ISSUER = text(
    "sasl.oauthbearer.expected.issuer", None, LOW, "Issuer a token must name.", inert=True
)

SECURITY_SETTINGS = declared(globals())
