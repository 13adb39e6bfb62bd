"""TLS and SASL options. Those of Java's security classes and of Kerberos are checked but have no effect.

Beside Kafka's names there are the short ones of librdkafka: a file each for the trusted certificates, the
client's certificate and its key, and user name and password without a JAAS configuration.
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
    password,
    string,
    string_list,
)

SECURITY_PROVIDERS = string("security.providers", None, LOW, "Java security providers to load.", inert=True)

SSL_PROTOCOL = string("ssl.protocol", "TLSv1.3", MEDIUM, "Highest TLS version.")

SSL_PROVIDER = string("ssl.provider", None, MEDIUM, "Java security provider for TLS.", inert=True)

SSL_ENABLED_PROTOCOLS = string_list(
    "ssl.enabled.protocols", ("TLSv1.2", "TLSv1.3"), MEDIUM, "Enabled TLS versions."
)

SSL_KEYSTORE_TYPE = string("ssl.keystore.type", "JKS", MEDIUM, "Format of the key store: PEM or PKCS12.")

SSL_KEYSTORE_LOCATION = string(
    "ssl.keystore.location", None, HIGH, "Key store file with the client's key and certificate."
)

SSL_KEYSTORE_PASSWORD = password("ssl.keystore.password", HIGH, "Password of the key store.")

SSL_KEY_PASSWORD = password("ssl.key.password", HIGH, "Password of the private key.")

SSL_KEYSTORE_KEY = password(
    "ssl.keystore.key", HIGH, "Private key in PEM format, instead of a key store file."
)

SSL_KEYSTORE_CERTIFICATE_CHAIN = password(
    "ssl.keystore.certificate.chain",
    HIGH,
    "Certificate chain in PEM format, instead of a key store file.",
)

SSL_TRUSTSTORE_TYPE = string(
    "ssl.truststore.type", "JKS", MEDIUM, "Format of the trust store: PEM or PKCS12."
)

SSL_TRUSTSTORE_LOCATION = string(
    "ssl.truststore.location", None, HIGH, "Trust store file with the trusted certificates."
)

SSL_TRUSTSTORE_PASSWORD = password("ssl.truststore.password", HIGH, "Password of the trust store.")

SSL_TRUSTSTORE_CERTIFICATES = password(
    "ssl.truststore.certificates",
    HIGH,
    "Trusted certificates in PEM format, instead of a trust store file.",
)

SSL_KEYMANAGER_ALGORITHM = string(
    "ssl.keymanager.algorithm", "SunX509", LOW, "Java key manager algorithm.", inert=True
)

SSL_TRUSTMANAGER_ALGORITHM = string(
    "ssl.trustmanager.algorithm", "PKIX", LOW, "Java trust manager algorithm.", inert=True
)

SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = string(
    "ssl.endpoint.identification.algorithm",
    "https",
    LOW,
    "Algorithm that verifies a broker's host name; empty disables it.",
)

SSL_SECURE_RANDOM_IMPLEMENTATION = string(
    "ssl.secure.random.implementation", None, LOW, "Java random number generator for TLS.", inert=True
)

SSL_CIPHER_SUITES = string_list(
    "ssl.cipher.suites", None, LOW, "Enabled cipher suites; the library's default if not set."
)

SSL_ENGINE_FACTORY_CLASS = class_name(
    "ssl.engine.factory.class", None, LOW, "Java class that creates TLS engines.", inert=True
)

SASL_MECHANISM = string("sasl.mechanism", "GSSAPI", MEDIUM, "SASL mechanism of this client.")

SASL_JAAS_CONFIG = password(
    "sasl.jaas.config", MEDIUM, "User name and password of the SASL mechanism in JAAS format."
)

SASL_CLIENT_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.client.callback.handler.class",
    None,
    MEDIUM,
    "Java class with the callbacks of a SASL mechanism.",
    inert=True,
)

SASL_LOGIN_CLASS = class_name("sasl.login.class", None, MEDIUM, "Java login class.", inert=True)

SASL_LOGIN_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.login.callback.handler.class", None, MEDIUM, "Java class with the login callbacks.", inert=True
)

SASL_KERBEROS_SERVICE_NAME = string(
    "sasl.kerberos.service.name", None, MEDIUM, "Kerberos service name of the brokers.", inert=True
)

SASL_KERBEROS_KINIT_CMD = string(
    "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", LOW, "Path of the kinit command.", inert=True
)

SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR = double(
    "sasl.kerberos.ticket.renew.window.factor",
    0.8,
    LOW,
    "Part of a Kerberos ticket's lifetime after which it is renewed.",
    inert=True,
)

SASL_KERBEROS_TICKET_RENEW_JITTER = double(
    "sasl.kerberos.ticket.renew.jitter", 0.05, LOW, "Random jitter of the ticket renewal.", inert=True
)

SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = int64(
    "sasl.kerberos.min.time.before.relogin",
    60_000,
    LOW,
    "Minimum time between two Kerberos logins.",
    inert=True,
)

SASL_LOGIN_REFRESH_WINDOW_FACTOR = double(
    "sasl.login.refresh.window.factor",
    0.8,
    LOW,
    "Part of an OAuth token's lifetime after which the login is refreshed.",
    at_least=0.5,
    at_most=1.0,
)

SASL_LOGIN_REFRESH_WINDOW_JITTER = double(
    "sasl.login.refresh.window.jitter",
    0.05,
    LOW,
    "Random jitter of the login refresh.",
    at_least=0.0,
    at_most=0.25,
)

SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = int16(
    "sasl.login.refresh.min.period.seconds",
    60,
    LOW,
    "Minimum time between two login refreshes.",
    at_least=0,
    at_most=900,
)

SASL_LOGIN_REFRESH_BUFFER_SECONDS = int16(
    "sasl.login.refresh.buffer.seconds",
    300,
    LOW,
    "Time before the expiration at which a login is refreshed.",
    at_least=0,
    at_most=3600,
)

SASL_LOGIN_CONNECT_TIMEOUT_MS = int32(
    "sasl.login.connect.timeout.ms", None, LOW, "Connect timeout to a token provider."
)

SASL_LOGIN_READ_TIMEOUT_MS = int32(
    "sasl.login.read.timeout.ms", None, LOW, "Read timeout of a token provider."
)

SASL_LOGIN_RETRY_BACKOFF_MS = int64(
    "sasl.login.retry.backoff.ms", 100, LOW, "Initial backoff after a failed token request."
)

SASL_LOGIN_RETRY_BACKOFF_MAX_MS = int64(
    "sasl.login.retry.backoff.max.ms", 10_000, LOW, "Maximum backoff after failed token requests."
)

SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = string(
    "sasl.oauthbearer.scope.claim.name", "scope", LOW, "Claim with the scope of a token.", inert=True
)

SASL_OAUTHBEARER_SUB_CLAIM_NAME = string(
    "sasl.oauthbearer.sub.claim.name", "sub", LOW, "Claim with the subject of a token.", inert=True
)

SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = string(
    "sasl.oauthbearer.token.endpoint.url", None, MEDIUM, "URL from which tokens are fetched."
)

SASL_OAUTHBEARER_HEADER_URLENCODE = boolean(
    "sasl.oauthbearer.header.urlencode",
    False,
    LOW,
    "Whether client id and secret are URL-encoded when a token is fetched.",
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = string(
    "sasl.oauthbearer.jwks.endpoint.url",
    None,
    MEDIUM,
    "URL of the keys that verify tokens (JWKS).",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    3_600_000,
    LOW,
    "Interval between refreshes of the JWKS.",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    100,
    LOW,
    "Initial backoff after a failed JWKS refresh.",
    inert=True,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    10_000,
    LOW,
    "Maximum backoff after failed JWKS refreshes.",
    inert=True,
)

SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = int32(
    "sasl.oauthbearer.clock.skew.seconds",
    30,
    LOW,
    "Tolerated clock difference when a token is verified.",
    inert=True,
)

SASL_OAUTHBEARER_EXPECTED_AUDIENCE = string_list(
    "sasl.oauthbearer.expected.audience",
    None,
    LOW,
    "Accepted audiences; a token must have one of them.",
    inert=True,
)

SASL_OAUTHBEARER_EXPECTED_ISSUER = string(
    "sasl.oauthbearer.expected.issuer", None, LOW, "Required issuer of a token.", inert=True
)

SSL_CA_LOCATION = string(
    "ssl.ca.location", None, LOW, "PEM file with the trusted certificates; short for a PEM trust store."
)

SSL_CERTIFICATE_LOCATION = string(
    "ssl.certificate.location", None, LOW, "PEM file with the client's certificate chain."
)

SSL_KEY_LOCATION = string("ssl.key.location", None, LOW, "PEM file with the client's private key.")

SASL_USERNAME = string("sasl.username", None, MEDIUM, "User name for PLAIN and SCRAM.")

SASL_PASSWORD = password("sasl.password", MEDIUM, "Password for PLAIN and SCRAM.")

SASL_OAUTHBEARER_CLIENT_ID = string(
    "sasl.oauthbearer.client.id", None, LOW, "Client id for the token endpoint."
)

SASL_OAUTHBEARER_CLIENT_SECRET = password(
    "sasl.oauthbearer.client.secret", LOW, "Client secret for the token endpoint."
)

SASL_OAUTHBEARER_SCOPE = string(
    "sasl.oauthbearer.scope", None, LOW, "Scope to request from the token endpoint."
)

SECURITY_SETTINGS = declared(globals())
