"""kcat, the command line client, as Debian packages it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence

import pytest
from tests.compat.clients.interface import Message

SECONDS_MAX = 40


class KcatFailed(Exception):
    """Raised when kcat exits with an error; its output is the message."""


def require_kcat() -> str:
    """Return the path of kcat; without it the tests are skipped, except in CI."""
    result = shutil.which("kcat") or shutil.which("kafkacat")
    if result is None:
        if os.environ.get("CI") == "true":
            pytest.fail("kcat is not installed, and CI must run its tests")
        pytest.skip("not run: kcat is not installed (apt-get install kcat)")
    return result


class Kcat:
    """kcat client of one broker."""

    name = "kcat"

    def __init__(self, bootstrap: str) -> None:
        self._command = [require_kcat(), "-b", bootstrap]

    def run(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """Run kcat with these arguments; return its standard output."""
        done = subprocess.run(
            [*self._command, *arguments], input=stdin, capture_output=True, timeout=SECONDS_MAX, check=False
        )
        if done.returncode != 0:
            raise KcatFailed(done.stderr.decode(errors="replace"))
        return done.stdout

    def produce(
        self, topic: str, messages: Sequence[Message], compression: str = "none", *options: str
    ) -> None:
        """Produce text lines with keys to partition 0; empty keys and values are sent as null."""
        lines = b"\n".join((message.key or b"") + b"\t" + (message.value or b"") for message in messages)
        self.run("-P", "-t", topic, "-p", "0", "-K", "\t", "-Z", "-z", compression, *options, stdin=lines)

    def consume(self, topic: str, start: str = "beginning", *options: str) -> list[dict[str, object]]:
        """Consume partition 0 up to its end, as kcat's JSON objects."""
        output = self.run("-C", "-t", topic, "-p", "0", "-o", start, "-e", "-q", "-J", *options)
        return [json.loads(line) for line in output.splitlines()]
