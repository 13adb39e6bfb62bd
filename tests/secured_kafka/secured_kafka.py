"""One Apache Kafka broker on a ZooKeeper server, secured as ``SecuredBroker`` is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from bench.peers.server_process import ServerProcess
from tests.support.broker import BASE_SETTINGS, free_port
from tests.support.raw_connection import broker_answers
from tests.support.secured_broker import MECHANISMS, SASL_LISTENERS, SecuredListeners
from tests.support.tls import foreign_authority

from odradek.system.local_zookeeper import LocalZooKeeper

START_SECONDS_MAX: Final = 90.0
SESSION_LIFETIME_MS: Final = 2_000
"""Time after which clients of SASL_PLAINTEXT must re-authenticate."""
JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms64m", "-Xmx512m")
SECURITY: Final = "org.apache.kafka.common.security"
LOGIN_MODULES: Final = {
    "SCRAM-SHA-256": f"{SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{SECURITY}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{SECURITY}.oauthbearer.OAuthBearerLoginModule",
}
TOKEN_VALIDATOR: Final = f"{SECURITY}.oauthbearer.OAuthBearerValidatorCallbackHandler"
AUTHORIZER_SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
    "allow.everyone.if.no.acl.found": "true",
}
"""``User:ANONYMOUS`` is the broker itself, and tests that prepare something on the PLAINTEXT listener."""
SHARED_SETTINGS: Final = {
    **BASE_SETTINGS,
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "delegation.token.secret.key": "secret of all brokers",
}
"""Settings of both brokers."""
REAUTHENTICATION: Final = "Beginning re-authentication"
EXPIRED_SESSION: Final = "Disconnecting expired channel"
LOG4J: Final = """log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
log4j.logger.org.apache.zookeeper=WARN
log4j.logger.org.apache.kafka.common.security.authenticator.SaslServerAuthenticator=DEBUG
log4j.logger.kafka.network.Processor=DEBUG
"""


class SecuredKafka(SecuredListeners):
    """Runs Apache Kafka. The listener MUTUAL is TLS and requires a certificate of the client."""

    def __init__(self, directory: Path, classpath: str) -> None:
        super().__init__(directory)
        self._ports["MUTUAL"] = free_port()
        self._output = directory / "kafka.out"
        self._classpath = classpath
        (directory / "foreign.pem").write_text(foreign_authority().certificate_pem)
        self.zookeeper = LocalZooKeeper(directory / "zookeeper", os.environ, is_durable=False)
        self._process: ServerProcess | None = None

    def start(self) -> SecuredKafka:
        properties = self.directory / "server.properties"
        lines = [f"{name}={value}\n" for name, value in self._settings().items()]
        properties.write_text("".join(lines))
        log4j = self.directory / "log4j.properties"
        log4j.write_text(LOG4J)
        command = [*JAVA, f"-Dlog4j.configuration=file:{log4j}", "-cp", self._classpath]
        self._process = ServerProcess([*command, "kafka.Kafka", str(properties)], self._output, None)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not broker_answers(self.bootstrap("PLAINTEXT")):
            self._process.must_live()
            if time.monotonic() > deadline:
                raise TimeoutError(f"no response in {START_SECONDS_MAX} s: {self._process.last_output()}")
            time.sleep(0.2)
        return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
        self.zookeeper.stop()

    def count_in_log(self, text: str) -> int:
        """Return how many lines of the broker's log have this text."""
        return sum(text in line for line in self._output.read_text(errors="replace").splitlines())

    def _settings(self) -> dict[str, str]:
        settings = {
            **self.listener_settings(),
            **AUTHORIZER_SETTINGS,
            **SHARED_SETTINGS,
            "broker.id": "0",
            "zookeeper.connect": self.zookeeper.connect_string,
            "log.dirs": str(self.directory / "data"),
            "listener.security.protocol.map": "MUTUAL:SSL,"
            + ",".join(f"{name}:{name}" for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
            "listener.name.mutual.ssl.client.auth": "required",
            "num.network.threads": "1",
            "num.io.threads": "2",
            "log.cleaner.dedupe.buffer.size": "4194304",
        }
        for listener in SASL_LISTENERS:
            for mechanism, module in LOGIN_MODULES.items():
                prefix = f"listener.name.{listener}.{mechanism.lower()}"
                settings[f"{prefix}.sasl.jaas.config"] = f"{module} required;"
            prefix = f"listener.name.{listener}.oauthbearer"
            settings[f"{prefix}.sasl.server.callback.handler.class"] = TOKEN_VALIDATOR
        for mechanism in MECHANISMS:
            prefix = f"listener.name.sasl_plaintext.{mechanism.lower()}"
            settings[f"{prefix}.connections.max.reauth.ms"] = str(SESSION_LIFETIME_MS)
        return settings
