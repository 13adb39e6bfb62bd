"""The lease of a pipeline, hold at the brokers: one runner, also without a shared disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fixtures import StartBroker

from odradek.pipelines.checkpoint.lease import LeaseTaken, hold, holder
from odradek.pipelines.spec.reader import Spec, parse_spec

HOLD = """
import sys, time
from pathlib import Path
from odradek.pipelines.checkpoint.lease import hold
from odradek.pipelines.spec.reader import read_spec
with hold(read_spec(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(600)
"""


def spec_in(directory: Path, bootstrap: str) -> Spec:
    """Return the same pipeline with its own checkpoint, as on another host."""
    directory.mkdir()
    text = f"""
[pipeline]
name = "orders"
[source]
brokers = "{bootstrap}"
topics = ["orders"]
[sink]
type = "noop"
"""
    file = directory / "orders.toml"
    file.write_text(text)
    return parse_spec(text, file, {})


@pytest.mark.timeout(300)
def test_live_runner_keeps_the_lease_and_killed_one_loses_it(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    broker = start_broker({"group.initial.rebalance.delay.ms": "0"})
    here, there = (spec_in(tmp_path / name, broker.bootstrap) for name in ("here", "there"))
    assert holder(here) is None
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(there.file)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        holder_id = f"{os.uname().nodename}:{other.pid}"
        assert holder(here) == holder_id
        with pytest.raises(LeaseTaken, match=f"orders is already running: {holder_id} "), hold(here):
            pass
    finally:
        other.kill()
        other.communicate()
    messages: list[str] = []
    with hold(here, messages.append) as lease:
        assert lease is not None
        assert holder(here) == f"{os.uname().nodename}:{os.getpid()}"
    assert [message for message in messages if holder_id in message and "within 10 s" in message]
    assert holder(here) is None
