"""C3: records encoded into and decoded from magic 2 batches per second, by codec, without a broker.

Ours against aiokafka's, which is compiled too, and kafka-python's, which is not. Not measured: compression,
which all delegate to libraries, and our APIs without an object per record (`send_many`, Arrow), which the
others lack.
"""

from __future__ import annotations

from bench.harness import SUBJECT, Bench, Goal, Row, Sample
from bench.loads.worker import run_load

CASE = "C3"
SECONDS = 1.5
VALUE_BYTES = (100, 1_000)
GOALS = {"aiokafka": 2.0, "kafka-python": 10.0}


def run(bench: Bench) -> None:
    for work in ("write", "read"):
        for value_bytes in VALUE_BYTES:
            for peer, goal in GOALS.items():
                row = Row(CASE, f"{work}, {value_bytes} B", "records/s", Goal("ratio", "≥", goal), peer=peer)
                codecs = {SUBJECT: SUBJECT, peer: peer}

                def measure(codec: str, work: str = work, value_bytes: int = value_bytes) -> Sample:
                    return _measure(bench, codec, work, value_bytes)

                bench.compare(row, codecs, measure, missing={})


def _measure(bench: Bench, codec: str, work: str, value_bytes: int) -> Sample:
    spec = {"codec": codec, "work": work, "value_bytes": value_bytes, "seconds": SECONDS, "seed": bench.seed}
    result = run_load("client.record_batches", spec)
    return Sample(result["records"] / result["seconds"], {"seconds": result["seconds"]})
