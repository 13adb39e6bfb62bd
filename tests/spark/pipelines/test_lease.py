"""One runner per pipeline, also where two do not share a disk: the brokers know who it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.fixtures import StartBroker

from odradek.pipelines.checkpoint.lease import LeaseTaken, held, holder
from odradek.pipelines.spec.reader import Spec, parse_spec

HOLD = """
import sys, time
from pathlib import Path
from odradek.pipelines.checkpoint.lease import held
from odradek.pipelines.spec.reader import read_spec
with held(read_spec(Path(sys.argv[1]))):
    print("held", flush=True)
    time.sleep(600)
"""


def spec_in(directory: Path, bootstrap: str) -> Spec:
    """The same pipeline with a checkpoint of its own, as on another machine."""
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
def test_a_living_runner_keeps_the_lease_and_a_killed_one_loses_it_within_its_session(
    tmp_path: Path, start_broker: StartBroker
) -> None:
    broker = start_broker({"group.initial.rebalance.delay.ms": "0"})
    here, there = (spec_in(tmp_path / name, broker.bootstrap) for name in ("here", "there"))
    assert holder(here) is None
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(there.file)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        who = f"{os.uname().nodename}:{other.pid}"
        assert holder(here) == who
        with pytest.raises(LeaseTaken, match=f"orders is run by {who} already"), held(here):
            pass
    finally:
        other.kill()
        other.communicate()
    said: list[str] = []
    with held(here, said.append) as lease:
        assert lease is not None
        assert lease.is_held
        assert holder(here) == f"{os.uname().nodename}:{os.getpid()}"
    assert [words for words in said if who in words and "within 10 s" in words]
    assert holder(here) is None
