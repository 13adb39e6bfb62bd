"""TLS, SASL, tokens and passwords."""

from __future__ import annotations

from odradek.config.broker.unavailable_reasons import NO_CLASSES, NO_ENCRYPTION, NO_SASL, NO_SSL, NO_TOKENS
from odradek.config.types import (
    DAY_MS,
    HOUR_MS,
    KIB,
    LOW,
    MEDIUM,
    PER_BROKER,
    boolean,
    choice,
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

CONNECTIONS_MAX_REAUTH_MS = int64(
    "connections.max.reauth.ms",
    0,
    MEDIUM,
    "How long a SASL session lasts before the client must authenticate again; 0 sets no bound.",
    refused=NO_SASL,
)

SASL_SERVER_MAX_RECEIVE_SIZE = int32(
    "sasl.server.max.receive.size",
    512 * KIB,
    MEDIUM,
    "Largest message read before a connection has authenticated.",
    inert=True,
)

SECURITY_PROVIDERS = text(
    "security.providers", None, LOW, "Java security providers to load.", refused=NO_CLASSES
)

PRINCIPAL_BUILDER_CLASS = class_name(
    "principal.builder.class",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    MEDIUM,
    "Class that names the principal of a connection. The built-in rules are used.",
    dynamic=PER_BROKER,
    refused=NO_CLASSES,
)

SSL_CLIENT_AUTH = choice(
    "ssl.client.auth",
    "none",
    MEDIUM,
    "Whether TLS clients must, may or need not show a certificate.",
    among=("required", "requested", "none"),
    dynamic=PER_BROKER,
    refused=NO_SSL,
)

SSL_PRINCIPAL_MAPPING_RULES = text(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    LOW,
    "How a certificate's distinguished name becomes a principal's name.",
    refused=NO_SSL,
)

SSL_ALLOW_DN_CHANGES = boolean(
    "ssl.allow.dn.changes",
    False,
    LOW,
    "Whether a live certificate may be replaced by one with another distinguished name.",
    inert=True,
)

SSL_ALLOW_SAN_CHANGES = boolean(
    "ssl.allow.san.changes",
    False,
    LOW,
    "Whether a live certificate may be replaced by one with other alternative names.",
    inert=True,
)

SSL_PROTOCOL = text(
    "ssl.protocol", "TLSv1.3", MEDIUM, "Newest TLS version to negotiate.", dynamic=PER_BROKER, inert=True
)

SSL_PROVIDER = text("ssl.provider", None, MEDIUM, "Java provider of TLS.", dynamic=PER_BROKER, inert=True)

SSL_ENABLED_PROTOCOLS = words(
    "ssl.enabled.protocols",
    (
        "TLSv1.2",
        "TLSv1.3",
    ),
    MEDIUM,
    "TLS versions on offer.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_KEYSTORE_TYPE = text(
    "ssl.keystore.type",
    "JKS",
    MEDIUM,
    "Format of the key store. PEM is read; JKS is not.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_KEYSTORE_LOCATION = text(
    "ssl.keystore.location",
    None,
    MEDIUM,
    "File with the broker's key and certificate.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_KEYSTORE_PASSWORD = secret(
    "ssl.keystore.password", MEDIUM, "Password of that file. PEM needs none.", dynamic=PER_BROKER, inert=True
)

SSL_KEY_PASSWORD = secret(
    "ssl.key.password", MEDIUM, "Password of the private key.", dynamic=PER_BROKER, inert=True
)

SSL_KEYSTORE_KEY = secret(
    "ssl.keystore.key", MEDIUM, "Private key as PEM text, in place of a file.", dynamic=PER_BROKER, inert=True
)

SSL_KEYSTORE_CERTIFICATE_CHAIN = secret(
    "ssl.keystore.certificate.chain",
    MEDIUM,
    "Certificates as PEM text, in place of a file.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_TRUSTSTORE_TYPE = text(
    "ssl.truststore.type",
    "JKS",
    MEDIUM,
    "Format of the trust store. PEM is read; JKS is not.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_TRUSTSTORE_LOCATION = text(
    "ssl.truststore.location",
    None,
    MEDIUM,
    "File with the certificates that are trusted.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_TRUSTSTORE_PASSWORD = secret(
    "ssl.truststore.password",
    MEDIUM,
    "Password of that file. PEM needs none.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_TRUSTSTORE_CERTIFICATES = secret(
    "ssl.truststore.certificates",
    MEDIUM,
    "Trusted certificates as PEM text, in place of a file.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_KEYMANAGER_ALGORITHM = text(
    "ssl.keymanager.algorithm",
    "SunX509",
    MEDIUM,
    "Java key manager algorithm.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_TRUSTMANAGER_ALGORITHM = text(
    "ssl.trustmanager.algorithm",
    "PKIX",
    MEDIUM,
    "Java trust manager algorithm.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = text(
    "ssl.endpoint.identification.algorithm",
    "https",
    LOW,
    "How a broker checks another broker's host name; empty turns the check off.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_SECURE_RANDOM_IMPLEMENTATION = text(
    "ssl.secure.random.implementation",
    None,
    LOW,
    "Java random number generator for TLS.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_CIPHER_SUITES = words(
    "ssl.cipher.suites",
    (),
    MEDIUM,
    "Cipher suites on offer; empty leaves the library's choice.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_ENGINE_FACTORY_CLASS = class_name(
    "ssl.engine.factory.class",
    None,
    LOW,
    "Java class that makes TLS engines.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_MECHANISM_INTER_BROKER_PROTOCOL = text(
    "sasl.mechanism.inter.broker.protocol",
    "GSSAPI",
    MEDIUM,
    "SASL mechanism between brokers.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_ENABLED_MECHANISMS = words(
    "sasl.enabled.mechanisms",
    ("GSSAPI",),
    MEDIUM,
    "SASL mechanisms on offer to clients. GSSAPI, Kafka's default, is not available here.",
    dynamic=PER_BROKER,
    refused=NO_SASL,
)

SASL_SERVER_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.server.callback.handler.class",
    None,
    MEDIUM,
    "Java class that answers a mechanism's questions on the server.",
    refused=NO_SASL,
)

SASL_CLIENT_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.client.callback.handler.class",
    None,
    MEDIUM,
    "Java class that answers a mechanism's questions between brokers.",
    inert=True,
)

SASL_JAAS_CONFIG = secret(
    "sasl.jaas.config",
    MEDIUM,
    "Users and passwords of a listener's mechanism, in JAAS form; with listener and mechanism prefix.",
    dynamic=PER_BROKER,
    refused=NO_SASL,
)

SASL_LOGIN_CLASS = class_name("sasl.login.class", None, MEDIUM, "Java login class.", inert=True)

SASL_LOGIN_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.login.callback.handler.class", None, MEDIUM, "Java login callback class.", inert=True
)

SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = words(
    "sasl.kerberos.principal.to.local.rules",
    ("DEFAULT",),
    MEDIUM,
    "Kerberos name rules. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_SERVICE_NAME = text(
    "sasl.kerberos.service.name",
    None,
    MEDIUM,
    "Kerberos service name. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_KINIT_CMD = text(
    "sasl.kerberos.kinit.cmd",
    "/usr/bin/kinit",
    MEDIUM,
    "Path of kinit. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR = double(
    "sasl.kerberos.ticket.renew.window.factor",
    0.8,
    MEDIUM,
    "When Kerberos tickets are renewed. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_TICKET_RENEW_JITTER = double(
    "sasl.kerberos.ticket.renew.jitter",
    0.05,
    MEDIUM,
    "Randomness of that renewal. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = int64(
    "sasl.kerberos.min.time.before.relogin",
    60_000,
    MEDIUM,
    "Shortest time between two Kerberos logins. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_LOGIN_REFRESH_WINDOW_FACTOR = double(
    "sasl.login.refresh.window.factor",
    0.8,
    MEDIUM,
    "When a broker's own OAuth login is refreshed, as a share of its life.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_LOGIN_REFRESH_WINDOW_JITTER = double(
    "sasl.login.refresh.window.jitter",
    0.05,
    MEDIUM,
    "Randomness of that refresh.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = int16(
    "sasl.login.refresh.min.period.seconds",
    60,
    MEDIUM,
    "Shortest time between two such refreshes.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_LOGIN_REFRESH_BUFFER_SECONDS = int16(
    "sasl.login.refresh.buffer.seconds",
    300,
    MEDIUM,
    "How long before its end a login is refreshed.",
    dynamic=PER_BROKER,
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
    "sasl.oauthbearer.token.endpoint.url", None, MEDIUM, "Where a broker's own token is fetched.", inert=True
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = text(
    "sasl.oauthbearer.jwks.endpoint.url",
    None,
    MEDIUM,
    "Where the keys that sign tokens are found: a file address.",
    refused=NO_SASL,
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    HOUR_MS,
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
    "Difference between clocks that is forgiven when a token's times are checked.",
    inert=True,
)

SASL_OAUTHBEARER_EXPECTED_AUDIENCE = words(
    "sasl.oauthbearer.expected.audience",
    None,
    LOW,
    "Audiences one of which a token must name.",
    refused=NO_SASL,
)

SASL_OAUTHBEARER_EXPECTED_ISSUER = text(
    "sasl.oauthbearer.expected.issuer", None, LOW, "Issuer a token must name.", refused=NO_SASL
)

DELEGATION_TOKEN_MASTER_KEY = secret(
    "delegation.token.master.key",
    MEDIUM,
    "Deprecated name of delegation.token.secret.key.",
    refused=NO_TOKENS,
)

DELEGATION_TOKEN_SECRET_KEY = secret(
    "delegation.token.secret.key",
    MEDIUM,
    "Secret that signs delegation tokens, which are off without it.",
    refused=NO_TOKENS,
)

DELEGATION_TOKEN_MAX_LIFETIME_MS = int64(
    "delegation.token.max.lifetime.ms",
    7 * DAY_MS,
    MEDIUM,
    "Longest life of a delegation token.",
    at_least=1,
    inert=True,
)

DELEGATION_TOKEN_EXPIRY_TIME_MS = int64(
    "delegation.token.expiry.time.ms",
    DAY_MS,
    MEDIUM,
    "Life of a delegation token between renewals.",
    at_least=1,
    inert=True,
)

DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = int64(
    "delegation.token.expiry.check.interval.ms",
    HOUR_MS,
    LOW,
    "How often expired delegation tokens are removed.",
    at_least=1,
    inert=True,
)

PASSWORD_ENCODER_SECRET = secret(
    "password.encoder.secret",
    MEDIUM,
    "Secret with which passwords set at run time are encrypted in ZooKeeper.",
    refused=NO_ENCRYPTION,
)

PASSWORD_ENCODER_OLD_SECRET = secret(
    "password.encoder.old.secret",
    MEDIUM,
    "The former such secret, while it is being changed.",
    refused=NO_ENCRYPTION,
)

PASSWORD_ENCODER_KEYFACTORY_ALGORITHM = text(
    "password.encoder.keyfactory.algorithm", None, LOW, "Java key factory for that encryption.", inert=True
)

PASSWORD_ENCODER_CIPHER_ALGORITHM = text(
    "password.encoder.cipher.algorithm",
    "AES/CBC/PKCS5Padding",
    LOW,
    "Java cipher for that encryption.",
    inert=True,
)

PASSWORD_ENCODER_KEY_LENGTH = int32(
    "password.encoder.key.length", 128, LOW, "Key length of that encryption.", at_least=8, inert=True
)

PASSWORD_ENCODER_ITERATIONS = int32(
    "password.encoder.iterations",
    4096,
    LOW,
    "Iterations of that encryption's key derivation.",
    at_least=1024,
    inert=True,
)

SECURITY_SETTINGS = declared(globals())
