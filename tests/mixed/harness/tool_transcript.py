"""Command-line tools of Kafka, run in the same order against a cluster of our brokers and one of Kafka's.

What the tools print must be equal, once names that every cluster chooses itself are replaced.
"""

from __future__ import annotations

import difflib
import json
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from tests.mixed.harness.mixed_cluster import BROKERS, TOOL_SECONDS_MAX, MixedCluster

BROKER_API_VERSIONS = "kafka.admin.BrokerApiVersionsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
CONFIGS = "kafka.admin.ConfigCommand"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
REPLICA_VERIFICATION = "org.apache.kafka.tools.ReplicaVerificationTool"
TOPICS = "org.apache.kafka.tools.TopicCommand"
MISSING_APIS = ("ConsumerGroupDescribe", "ConsumerGroupHeartbeat", "Envelope", "UpdateFeatures")
"""APIs of Kafka's brokers that ours do not have; clients see them as unsupported."""
CHOSEN_IDS = re.compile(r"(TopicId: |Cluster ID: )[\w-]{22}")
ERROR_TEXTS = re.compile(r"(Error while executing topic command :|\.errors\.\w+Exception:).*")
"""Brokers word errors themselves; their kind is compared."""
TIMES = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3}")


class Step(NamedTuple):
    """A tool, its arguments, its exit status and what it printed."""

    tool: str
    arguments: tuple[str, ...]
    status: int
    output: tuple[str, ...]


class Tools:
    """Tools on one cluster, and the transcript of their runs."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster
        self.transcript: list[Step] = []

    def run(
        self, tool: str, *arguments: str, show: Callable[[str], object] | None = None, status: int = 0
    ) -> str:
        """Run a tool with ``--bootstrap-server`` first, and note what ``show`` takes from its output."""
        connection = ("--bootstrap-server", self.cluster.bootstrap)
        return self._run(tool, *connection, *arguments, show=show, status=status)

    def run_command(self, tool: str, command: str, *arguments: str) -> str:
        """Run a tool whose command comes before ``--bootstrap-server``."""
        return self._run(tool, command, "--bootstrap-server", self.cluster.bootstrap, *arguments)

    def _run(
        self, tool: str, *arguments: str, show: Callable[[str], object] | None = None, status: int = 0
    ) -> str:
        command = self.cluster.tool_command(tool, *arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False)
        failure = f"exit status must be {status}, got {done.returncode}:\n{done.stdout}{done.stderr}"
        assert done.returncode == status, f"{tool} {arguments}: {failure}"
        output = self._replace_names(done.stdout)
        if status:
            output = ERROR_TEXTS.sub(r"\1", output)
        shown = str(show(output)) if show else output
        noted = tuple(map(self._replace_names, arguments))
        self.transcript.append(Step(tool.rpartition(".")[2], noted, done.returncode, lines_of(shown)))
        return done.stdout

    def json_file(self, name: str, content: object) -> str:
        """Write a file for a tool; return its path."""
        path = self.cluster.home / f"{name}.json"
        path.write_text(json.dumps(content))
        return str(path)

    def read_until(self, expected: str, tool: str, *arguments: str) -> None:
        """Run a tool that does not end by itself until it prints a line; note that line."""
        command = self.cluster.tool_command(tool, *arguments)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            timer = threading.Timer(TOOL_SECONDS_MAX, process.kill)
            timer.start()
            assert process.stdout is not None
            lines: list[str] = []
            for line in process.stdout:
                lines.append(line)
                if re.search(expected, line):
                    break
            timer.cancel()
            process.kill()
        assert lines, f"{tool} must print something"
        assert re.search(expected, lines[-1]), lines
        noted = tuple(map(self._replace_names, arguments))
        output = lines_of(self._replace_names(lines[-1]))
        self.transcript.append(Step(tool.rpartition(".")[2], noted, 0, output))

    def _replace_names(self, text: str) -> str:
        for broker in BROKERS:
            text = text.replace(self.cluster.address(broker), f"broker-{broker}")
        text = text.replace(str(self.cluster.home), "HOME")
        return TIMES.sub("TIME", CHOSEN_IDS.sub(r"\1ID", text))


def lines_of(text: str) -> tuple[str, ...]:
    """Return lines without trailing blanks and stack frames."""
    lines = (line.rstrip() for line in text.splitlines())
    return tuple(line for line in lines if line and not line.lstrip().startswith(("at ", "... ")))


class ClusterPair(NamedTuple):
    """A cluster of our brokers, and one of Kafka's with the same settings."""

    ours: MixedCluster
    kafka: MixedCluster

    def play(self, script: Callable[[Tools], None]) -> None:
        """Run a script on both at the same time, and compare step by step."""
        both = Tools(self.ours), Tools(self.kafka)
        with ThreadPoolExecutor(len(both)) as threads:
            for running in [threads.submit(script, tools) for tools in both]:
                running.result()
        ours, kafka = (tools.transcript for tools in both)
        pairs = zip(ours, kafka, strict=True)
        differences = [describe_difference(*steps) for steps in pairs if steps[0] != steps[1]]
        assert not differences, "\n".join(["tools must print the same:", *differences])


def describe_difference(ours: Step, kafka: Step) -> str:
    """Return a difference: lines of our brokers with +, those of Kafka's with -."""
    lines = difflib.unified_diff(kafka.output, ours.output, lineterm="", n=0)
    return "\n  ".join([f"{ours.tool} {' '.join(ours.arguments)}", *list(lines)[2:]])


def sorted_json(text: str) -> Any:
    """Return the JSON object in a tool's output, with lists in order."""
    start = text.index("{")
    return _sorted(json.loads(text[start : text.rindex("}") + 1]))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in sorted(value.items())}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return sorted(map(_sorted, value), key=str)
    return value


def sorted_lines(text: str) -> str:
    """Return lines in order, for tools that print what a map has."""
    return "\n".join(sorted(text.splitlines()))


def known_apis(text: str) -> str:
    """Return the APIs of each broker in order, without those that our brokers do not have."""
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    return "\n".join(sorted(line for line in lines if not line.startswith(MISSING_APIS)))
