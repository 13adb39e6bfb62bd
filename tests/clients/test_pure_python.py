"""Clients in a process that runs the Python sources alone."""

from __future__ import annotations

import os
import subprocess
import sys

PROGRAM = """
import sys
from odradek import Consumer, Producer
from odradek.compiled_modules import FORM

bootstrap, topic = sys.argv[1:]
assert FORM == "pure Python"
with Producer(bootstrap_servers=bootstrap, compression_type="zstd") as producer:
    for number in range(100):
        producer.send(topic, b"%d" % number)
with Consumer(bootstrap_servers=bootstrap, group_id="pure", auto_offset_reset="earliest") as consumer:
    consumer.subscribe([topic])
    records = []
    while len(records) < 100:
        records += consumer.poll(10)
assert sorted(int(record.value) for record in records) == list(range(100))
"""


def test_pure_python_clients_write_and_read(bootstrap: str, topic: str) -> None:
    command = [sys.executable, "-c", PROGRAM, bootstrap, topic]
    environment = {**os.environ, "ODRADEK_PURE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
