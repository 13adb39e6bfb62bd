"""Kafka's command-line tools, run in the same order against our secured broker and a secured Kafka.

What they print must be equal, once names that each broker chooses itself are replaced.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.mixed.harness.tool_transcript import ERROR_TEXTS, Step, describe_difference, lines_of
from tests.support.secured_broker import SecuredListeners, password_of

TOOL_SECONDS_MAX: Final = 120.0
JAVA: Final = ("java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m")
LOG4J: Final = """log4j.rootLogger=ERROR, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %m (%c)%n
"""
ACLS: Final = "kafka.admin.AclCommand"
BROKER_API_VERSIONS: Final = "kafka.admin.BrokerApiVersionsCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
CONSOLE_CONSUMER: Final = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSOLE_PRODUCER: Final = "kafka.tools.ConsoleProducer"
CONSUMER_GROUPS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DELEGATION_TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"
GET_OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
OPTION_OF_CONFIG: Final = {
    CONSOLE_CONSUMER: "--consumer.config",
    CONSOLE_PRODUCER: "--producer.config",
}
"""Tools whose option is not ``--command-config``."""
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
CHOSEN_IDS: Final = re.compile(r"((?:TopicId|tokenId) ?: )[\w-]{22}")
HMACS: Final = re.compile(r"[\w+/]{86}==")
TOKEN_ROWS: Final = re.compile(r"^[\w-]{22}\s+[\w+/]{86}==", re.MULTILINE)
TOKEN_DATES: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d|\bexpiry date : \S.*")
ERRORS: Final = re.compile(r"\w+(?:\.\w+)*\.(\w+(?:Exception|Error))\b")


class Tools:
    """Tools on one broker over SASL_SSL, and the transcript of their runs."""

    def __init__(self, listeners: SecuredListeners, classpath: str) -> None:
        self.listeners = listeners
        self.transcript: list[Step] = []
        self._classpath = classpath
        self._config_count = 0
        self._log4j = listeners.directory / "tools-log4j.properties"
        self._log4j.write_text(LOG4J)

    def run(
        self,
        tool: str,
        *arguments: str,
        user: str = "admin",
        mechanism: str = "SCRAM-SHA-512",
        password: str | None = None,
        text: str = "",
        status: int = 0,
        show: Callable[[str], object] | None = None,
        is_token: bool = False,
    ) -> str:
        """Run a tool as a user, with a text on its standard input. A token has its id and HMAC instead.

        Note what ``show`` takes from its output, and the names of errors.
        """
        config = self._client_config(user, mechanism, password or password_of(user), is_token=is_token)
        connection = ("--bootstrap-server", self.listeners.bootstrap("SASL_SSL"))
        option = OPTION_OF_CONFIG.get(tool, "--command-config")
        java = (*JAVA, f"-Dlog4j.configuration=file:{self._log4j}", "-cp", self._classpath)
        done = subprocess.run(
            [*java, tool, *connection, option, str(config), *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=TOOL_SECONDS_MAX,
            check=False,
        )
        said = done.stdout + done.stderr
        failure = f"exit status must be {status}, got {done.returncode}:\n{said}"
        assert done.returncode == status, f"{tool} {arguments}: {failure}"
        assert password_of(user) not in said
        errors = "".join(f"\n{name}" for name in sorted(set(ERRORS.findall(said))))
        output = ERROR_TEXTS.sub(r"\1", self._replace_names(done.stdout))
        show = show or (sorted_acls if tool == ACLS else str)
        shown = f"{show(output)}{errors}"
        noted = (f"({'token' if is_token else user})", *map(self._replace_names, arguments))
        self.transcript.append(Step(tool.rpartition(".")[2], noted, done.returncode, lines_of(shown)))
        return done.stdout

    def _client_config(self, user: str, mechanism: str, password: str, *, is_token: bool) -> Path:
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        token = ' tokenauth="true"' if is_token else ""
        self._config_count += 1
        path = self.listeners.directory / f"client-{self._config_count}.properties"
        lines = (
            "security.protocol=SASL_SSL",
            f"sasl.mechanism={mechanism}",
            f'sasl.jaas.config={module} required username="{user}" password="{password}"{token};',
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.listeners.files['authority']}",
        )
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def _replace_names(self, text: str) -> str:
        text = text.replace(self.listeners.bootstrap("SASL_SSL"), "BROKER")
        text = TOKEN_ROWS.sub("TOKEN HMAC", TOKEN_DATES.sub("DATE", text))
        return HMACS.sub("HMAC", CHOSEN_IDS.sub(r"\1ID", text))


class ToolPair(NamedTuple):
    """Tools on our broker, and on Kafka with the same users and settings."""

    ours: Tools
    kafka: Tools

    def play(self, script: Callable[[Tools], None]) -> None:
        """Run a script on both at the same time, and compare step by step."""
        with ThreadPoolExecutor(len(self)) as threads:
            for running in [threads.submit(script, tools) for tools in self]:
                running.result()
        pairs = zip(self.ours.transcript, self.kafka.transcript, strict=True)
        differences = [describe_difference(*steps) for steps in pairs if steps[0] != steps[1]]
        assert not differences, "\n".join(["tools must print the same:", *differences])


def sorted_acls(output: str) -> str:
    """Return resources in order, each with its entries in order: the tool prints sets."""
    groups: list[list[str]] = [[]]
    for line in filter(None, map(str.strip, output.splitlines())):
        if not line.startswith("(principal="):
            groups.append([])
        groups[-1].append(line)
    return "\n".join("\n".join([*group[:1], *sorted(group[1:])]) for group in sorted(groups))
