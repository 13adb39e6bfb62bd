"""Every Python example of the README and the documents runs against a broker and prints what is shown.

A ``python`` block is run as it stands, but for the broker's address; a ``text`` block right behind it is what
it must print. Blocks share a broker, and find a topic ``orders`` there with three records. Pages about Spark
are left to ``tests/spark/test_spark_docs.py``, where one session serves them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import odradek

ROOT = Path(__file__).parents[2]
ADDRESS = "127.0.0.1:9092"
SECONDS_MAX = 60

BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not page.name.startswith("spark")),
]
BLOCKS = [
    pytest.param(block[1], block[2], id=f"{page.relative_to(ROOT)}-{number}")
    for page in PAGES
    for number, block in enumerate(BLOCK.finditer(page.read_text(encoding="utf-8")))
]
ORDERS = (b"first", b"second", b"third")
SCRIPTS = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name != "demo.py"]


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, timeout=SECONDS_MAX, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def orders(bootstrap: str) -> None:
    with odradek.Producer(bootstrap_servers=bootstrap) as producer:
        producer.send_many("orders", ORDERS).result()


def test_the_readme_has_an_example() -> None:
    assert any(str(block.id).startswith("README.md") for block in BLOCKS)


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(("source", "shown"), BLOCKS)
def test_an_example_of_a_page_prints_what_is_shown(bootstrap: str, source: str, shown: str | None) -> None:
    assert ADDRESS in source, "an example names the address that odradek serve listens on"
    printed = run("-c", source.replace(ADDRESS, bootstrap))
    if shown is not None:
        assert printed == shown


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_script_prints_what_it_produced(bootstrap: str, script: Path) -> None:
    lines = run(str(script), bootstrap).splitlines()
    assert [line.split()[0] for line in lines] == ["0", "1", "2"]
    assert all(" castle " in line for line in lines)
