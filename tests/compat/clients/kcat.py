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
    """kcat ended with an error; its words are the message."""


def require_kcat() -> str:
    """The path of kcat. A machine that lacks it reports its tests as not run; CI must have it."""
    found = shutil.which("kcat") or shutil.which("kafkacat")
    if found is None:
        if os.environ.get("CI") == "true":
            pytest.fail("kcat is not installed, and CI must run its tests")
        pytest.skip("not run: kcat is not installed (apt-get install kcat)")
    return found


class Kcat:
    """One broker seen by kcat."""

    name = "kcat"

    def __init__(self, bootstrap: str) -> None:
        self._command = [require_kcat(), "-b", bootstrap]

    def run(self, *arguments: str, given: bytes = b"") -> bytes:
        """Run kcat with these arguments; gives its standard output."""
        done = subprocess.run(
            [*self._command, *arguments], input=given, capture_output=True, timeout=SECONDS_MAX, check=False
        )
        if done.returncode != 0:
            raise KcatFailed(done.stderr.decode(errors="replace"))
        return done.stdout

    def produce(
        self, topic: str, messages: Sequence[Message], compression: str = "none", *options: str
    ) -> None:
        """Produce text lines with keys to partition 0; empty keys and values are sent as null."""
        lines = b"\n".join((one.key or b"") + b"\t" + (one.value or b"") for one in messages)
        self.run("-P", "-t", topic, "-p", "0", "-K", "\t", "-Z", "-z", compression, *options, given=lines)

    def consume(self, topic: str, start: str = "beginning", *options: str) -> list[dict[str, object]]:
        """Consume partition 0 up to its end, as kcat's JSON objects."""
        output = self.run("-C", "-t", topic, "-p", "0", "-o", start, "-e", "-q", "-J", *options)
        return [json.loads(line) for line in output.splitlines()]
