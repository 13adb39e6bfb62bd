"""Settings of TLS, SASL, delegation tokens and passwords."""

from __future__ import annotations

from odradek.config.broker.unavailable_reasons import NO_CLASSES, NO_ENCRYPTION
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
    password,
    string,
    string_list,
)

CONNECTIONS_MAX_REAUTH_MS = int64(
    "connections.max.reauth.ms",
    0,
    MEDIUM,
    "Time after which a SASL client must re-authenticate; 0 is unlimited.",
)

SASL_SERVER_MAX_RECEIVE_SIZE = int32(
    "sasl.server.max.receive.size",
    512 * KIB,
    MEDIUM,
    "Maximum size of a request before authentication.",
)

SECURITY_PROVIDERS = string(
    "security.providers", None, LOW, "Java security providers to load.", unavailable=NO_CLASSES
)

PRINCIPAL_BUILDER_CLASS = class_name(
    "principal.builder.class",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    MEDIUM,
    "Class that builds the principal of a connection. The built-in one is used.",
    dynamic=PER_BROKER,
    unavailable=NO_CLASSES,
)

SSL_CLIENT_AUTH = choice(
    "ssl.client.auth",
    "none",
    MEDIUM,
    "Whether a client certificate is required, requested or not used.",
    among=("required", "requested", "none"),
    dynamic=PER_BROKER,
)

SSL_PRINCIPAL_MAPPING_RULES = string(
    "ssl.principal.mapping.rules",
    "DEFAULT",
    LOW,
    "Rules that map a certificate's distinguished name to a principal name.",
)

SSL_ALLOW_DN_CHANGES = boolean(
    "ssl.allow.dn.changes",
    False,
    LOW,
    "Whether a certificate may be replaced at run time by one with another distinguished name.",
)

SSL_ALLOW_SAN_CHANGES = boolean(
    "ssl.allow.san.changes",
    False,
    LOW,
    "Whether a certificate may be replaced at run time by one with other subject alternative names.",
)

SSL_PROTOCOL = string("ssl.protocol", "TLSv1.3", MEDIUM, "Highest TLS version.", dynamic=PER_BROKER)

SSL_PROVIDER = string(
    "ssl.provider", None, MEDIUM, "Java security provider for TLS.", dynamic=PER_BROKER, inert=True
)

SSL_ENABLED_PROTOCOLS = string_list(
    "ssl.enabled.protocols",
    (
        "TLSv1.2",
        "TLSv1.3",
    ),
    MEDIUM,
    "Enabled TLS versions.",
    dynamic=PER_BROKER,
)

SSL_KEYSTORE_TYPE = string(
    "ssl.keystore.type",
    "JKS",
    MEDIUM,
    "Format of the key store. PEM or PKCS12; JKS is not supported.",
    dynamic=PER_BROKER,
)

SSL_KEYSTORE_LOCATION = string(
    "ssl.keystore.location",
    None,
    MEDIUM,
    "Key store file with the broker's key and certificate.",
    dynamic=PER_BROKER,
)

SSL_KEYSTORE_PASSWORD = password(
    "ssl.keystore.password",
    MEDIUM,
    "Password of the key store. Not needed for PEM.",
    dynamic=PER_BROKER,
)

SSL_KEY_PASSWORD = password("ssl.key.password", MEDIUM, "Password of the private key.", dynamic=PER_BROKER)

SSL_KEYSTORE_KEY = password(
    "ssl.keystore.key",
    MEDIUM,
    "Private key in PEM format, instead of a key store file.",
    dynamic=PER_BROKER,
)

SSL_KEYSTORE_CERTIFICATE_CHAIN = password(
    "ssl.keystore.certificate.chain",
    MEDIUM,
    "Certificate chain in PEM format, instead of a key store file.",
    dynamic=PER_BROKER,
)

SSL_TRUSTSTORE_TYPE = string(
    "ssl.truststore.type",
    "JKS",
    MEDIUM,
    "Format of the trust store. PEM or PKCS12; JKS is not supported.",
    dynamic=PER_BROKER,
)

SSL_TRUSTSTORE_LOCATION = string(
    "ssl.truststore.location",
    None,
    MEDIUM,
    "Trust store file with the trusted certificates.",
    dynamic=PER_BROKER,
)

SSL_TRUSTSTORE_PASSWORD = password(
    "ssl.truststore.password",
    MEDIUM,
    "Password of the trust store. Not needed for PEM.",
    dynamic=PER_BROKER,
)

SSL_TRUSTSTORE_CERTIFICATES = password(
    "ssl.truststore.certificates",
    MEDIUM,
    "Trusted certificates in PEM format, instead of a trust store file.",
    dynamic=PER_BROKER,
)

SSL_KEYMANAGER_ALGORITHM = string(
    "ssl.keymanager.algorithm",
    "SunX509",
    MEDIUM,
    "Java key manager algorithm.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_TRUSTMANAGER_ALGORITHM = string(
    "ssl.trustmanager.algorithm",
    "PKIX",
    MEDIUM,
    "Java trust manager algorithm.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = string(
    "ssl.endpoint.identification.algorithm",
    "https",
    LOW,
    "Algorithm that verifies the host name of another broker; empty disables it.",
    dynamic=PER_BROKER,
)

SSL_SECURE_RANDOM_IMPLEMENTATION = string(
    "ssl.secure.random.implementation",
    None,
    LOW,
    "Java random number generator for TLS.",
    dynamic=PER_BROKER,
    inert=True,
)

SSL_CIPHER_SUITES = string_list(
    "ssl.cipher.suites",
    (),
    MEDIUM,
    "Enabled cipher suites; empty uses the library's default.",
    dynamic=PER_BROKER,
)

SSL_ENGINE_FACTORY_CLASS = class_name(
    "ssl.engine.factory.class",
    None,
    LOW,
    "Java class that creates TLS engines.",
    dynamic=PER_BROKER,
    unavailable=NO_CLASSES,
)

SASL_MECHANISM_INTER_BROKER_PROTOCOL = string(
    "sasl.mechanism.inter.broker.protocol",
    "GSSAPI",
    MEDIUM,
    "SASL mechanism between brokers.",
    dynamic=PER_BROKER,
)

SASL_ENABLED_MECHANISMS = string_list(
    "sasl.enabled.mechanisms",
    ("GSSAPI",),
    MEDIUM,
    "Enabled SASL mechanisms. GSSAPI, Kafka's default, is not available.",
    dynamic=PER_BROKER,
)

SASL_SERVER_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.server.callback.handler.class",
    None,
    MEDIUM,
    "Java class with the server callbacks of a SASL mechanism: Kafka's validator of signed tokens, or none.",
)

SASL_CLIENT_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.client.callback.handler.class",
    None,
    MEDIUM,
    "Java class with the client callbacks of a SASL mechanism, between brokers.",
    inert=True,
)

SASL_JAAS_CONFIG = password(
    "sasl.jaas.config",
    MEDIUM,
    "Users and passwords of a listener's mechanism in JAAS format; with listener and mechanism prefix.",
    dynamic=PER_BROKER,
)

SASL_LOGIN_CLASS = class_name("sasl.login.class", None, MEDIUM, "Java login class.", inert=True)

SASL_LOGIN_CALLBACK_HANDLER_CLASS = class_name(
    "sasl.login.callback.handler.class", None, MEDIUM, "Java class with the login callbacks.", inert=True
)

SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = string_list(
    "sasl.kerberos.principal.to.local.rules",
    ("DEFAULT",),
    MEDIUM,
    "Kerberos name rules. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_SERVICE_NAME = string(
    "sasl.kerberos.service.name",
    None,
    MEDIUM,
    "Kerberos service name. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_KINIT_CMD = string(
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
    "Part of a Kerberos ticket's lifetime after which it is renewed. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_TICKET_RENEW_JITTER = double(
    "sasl.kerberos.ticket.renew.jitter",
    0.05,
    MEDIUM,
    "Random jitter of the ticket renewal. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = int64(
    "sasl.kerberos.min.time.before.relogin",
    60_000,
    MEDIUM,
    "Minimum time between two Kerberos logins. Kerberos is not available.",
    dynamic=PER_BROKER,
    inert=True,
)

SASL_LOGIN_REFRESH_WINDOW_FACTOR = double(
    "sasl.login.refresh.window.factor",
    0.8,
    MEDIUM,
    "Part of an OAuth token's lifetime after which the broker refreshes its login.",
    dynamic=PER_BROKER,
)

SASL_LOGIN_REFRESH_WINDOW_JITTER = double(
    "sasl.login.refresh.window.jitter",
    0.05,
    MEDIUM,
    "Random jitter of the login refresh.",
    dynamic=PER_BROKER,
)

SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = int16(
    "sasl.login.refresh.min.period.seconds",
    60,
    MEDIUM,
    "Minimum time between two login refreshes.",
    dynamic=PER_BROKER,
)

SASL_LOGIN_REFRESH_BUFFER_SECONDS = int16(
    "sasl.login.refresh.buffer.seconds",
    300,
    MEDIUM,
    "Time before the expiration at which a login is refreshed.",
    dynamic=PER_BROKER,
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
    "sasl.oauthbearer.scope.claim.name", "scope", LOW, "Claim with the scope of a token."
)

SASL_OAUTHBEARER_SUB_CLAIM_NAME = string(
    "sasl.oauthbearer.sub.claim.name", "sub", LOW, "Claim with the subject of a token."
)

SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = string(
    "sasl.oauthbearer.token.endpoint.url",
    None,
    MEDIUM,
    "URL from which a broker fetches its own token.",
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = string(
    "sasl.oauthbearer.jwks.endpoint.url",
    None,
    MEDIUM,
    "URL, of a file or an HTTP server, of the keys that verify tokens (JWKS).",
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    HOUR_MS,
    LOW,
    "Interval between refreshes of the JWKS.",
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    100,
    LOW,
    "Initial backoff after a failed JWKS refresh.",
)

SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = int64(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
    10_000,
    LOW,
    "Maximum backoff after failed JWKS refreshes.",
)

SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = int32(
    "sasl.oauthbearer.clock.skew.seconds",
    30,
    LOW,
    "Tolerated clock difference when a token is verified.",
)

SASL_OAUTHBEARER_EXPECTED_AUDIENCE = string_list(
    "sasl.oauthbearer.expected.audience",
    None,
    LOW,
    "Accepted audiences; a token must have one of them.",
)

SASL_OAUTHBEARER_EXPECTED_ISSUER = string(
    "sasl.oauthbearer.expected.issuer", None, LOW, "Required issuer of a token."
)

DELEGATION_TOKEN_MASTER_KEY = password(
    "delegation.token.master.key",
    MEDIUM,
    "Deprecated name of delegation.token.secret.key.",
)

DELEGATION_TOKEN_SECRET_KEY = password(
    "delegation.token.secret.key",
    MEDIUM,
    "Secret that signs delegation tokens; they are disabled without it.",
)

DELEGATION_TOKEN_MAX_LIFETIME_MS = int64(
    "delegation.token.max.lifetime.ms",
    7 * DAY_MS,
    MEDIUM,
    "Maximum lifetime of a delegation token.",
    at_least=1,
)

DELEGATION_TOKEN_EXPIRY_TIME_MS = int64(
    "delegation.token.expiry.time.ms",
    DAY_MS,
    MEDIUM,
    "Time after which a delegation token must be renewed.",
    at_least=1,
)

DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = int64(
    "delegation.token.expiry.check.interval.ms",
    HOUR_MS,
    LOW,
    "Interval between checks for expired delegation tokens.",
    at_least=1,
)

PASSWORD_ENCODER_SECRET = password(
    "password.encoder.secret",
    MEDIUM,
    "Secret that encrypts passwords set at run time in ZooKeeper.",
    unavailable=NO_ENCRYPTION,
)

PASSWORD_ENCODER_OLD_SECRET = password(
    "password.encoder.old.secret",
    MEDIUM,
    "Previous encoder secret, while it is being replaced.",
    unavailable=NO_ENCRYPTION,
)

PASSWORD_ENCODER_KEYFACTORY_ALGORITHM = string(
    "password.encoder.keyfactory.algorithm",
    None,
    LOW,
    "Java key factory algorithm of the password encryption.",
    inert=True,
)

PASSWORD_ENCODER_CIPHER_ALGORITHM = string(
    "password.encoder.cipher.algorithm",
    "AES/CBC/PKCS5Padding",
    LOW,
    "Java cipher algorithm of the password encryption.",
    inert=True,
)

PASSWORD_ENCODER_KEY_LENGTH = int32(
    "password.encoder.key.length", 128, LOW, "Key length of the password encryption.", at_least=8, inert=True
)

PASSWORD_ENCODER_ITERATIONS = int32(
    "password.encoder.iterations",
    4096,
    LOW,
    "Key derivation iterations of the password encryption.",
    at_least=1024,
    inert=True,
)

SECURITY_SETTINGS = declared(globals())
