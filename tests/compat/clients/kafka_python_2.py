"""kafka-python 2 from a second virtual environment, for the message formats newer clients no longer write.

The environment is ``.venv-kafka2`` beside the one in use, made by
``python -m venv .venv-kafka2 && .venv-kafka2/bin/pip install -r tests/requirements-kafka-python-2.txt``.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.compat.clients.interface import ErrorResponse, Message

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv-kafka2" / "bin" / "python"
SCRIPT = Path(__file__).with_name("kafka_python_2_script.py")
SECONDS_MAX = 60

Release = tuple[int, ...] | None


class OldRecord(NamedTuple):
    """Record as seen by an old consumer: no headers; a timestamp only since magic 1."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None


def _packed(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _unpacked(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


class KafkaPython2:
    """kafka-python 2 client of one broker, at a given protocol release."""

    def __init__(self, bootstrap: str, release: Release = None) -> None:
        self._bootstrap = bootstrap
        self._release = release

    def _query(self, action: str, **request: Any) -> Any:
        assert PYTHON.exists(), f"{PYTHON} is missing; {__doc__}"
        requested = {"action": action, "bootstrap": self._bootstrap, "api_version": self._release, **request}
        done = subprocess.run(
            [PYTHON, SCRIPT],
            input=json.dumps(requested),
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        response = json.loads(done.stdout)
        if "error" in response:
            raise ErrorResponse(response["error"], response["message"])
        return response["response"]

    def produce(
        self, topic: str, messages: Sequence[Message], compression: str | None = None, acks: int = 1
    ) -> list[int]:
        """Produce to partition 0; return offsets."""
        rows = [(_packed(message.key), _packed(message.value), message.timestamp_ms) for message in messages]
        return list(self._query("produce", topic=topic, messages=rows, compression=compression, acks=acks))

    def consume(self, topic: str, count: int, start: int | None = None) -> list[OldRecord]:
        """Consume partition 0."""
        return [
            OldRecord(offset, _unpacked(key), _unpacked(value), timestamp_ms)
            for offset, key, value, timestamp_ms in self._query(
                "consume", topic=topic, count=count, start=start
            )
        ]

    def offsets(self, topic: str) -> tuple[int, int]:
        """Return the beginning and end offset of partition 0."""
        low, high = self._query("offsets", topic=topic)
        return low, high

    def create_topic(self, topic: str) -> list[str]:
        """Create a topic; return the names of all topics."""
        return list(self._query("create_topic", topic=topic))
