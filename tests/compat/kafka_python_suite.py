"""kafka-python's own integration tests against our broker: ``python -m tests.compat.kafka_python_suite``.

They come from the source distribution of the installed version, which is downloaded once into a cache outside
the repository; two modules missing from it are added. ``EXPECTED_FAILURES`` lists tests that cannot pass yet,
and why; one that does pass is reported, too. Exits with status 1 on any unexpected result.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from tests.support.broker import FOREIGN_BOOTSTRAP, Broker

SUITES = ("consumer", "admin", "producer")
TEST_SECONDS_MAX = 20
ALL_SECONDS_MAX = 600
SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "100",
    "num.partitions": "4",
}
"""Settings of kafka-python's own test brokers: its tests use sessions of three seconds, wait fifteen seconds
for a group of four, and expect four partitions in an auto-created topic."""

SERVICE_MODULE = '''"""Stub for a broker that is already running."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService:
    pass
'''

CLUSTERS = "needs clusters"
EXPECTED_FAILURES: Mapping[str, str] = {
    "test_create_describe_delete_acls": "needs access control",
    "test_elect_leaders": CLUSTERS,
    "test_alter_partition_reassignments": CLUSTERS,
    "test_list_partition_reassignments": CLUSTERS,
}


def cache() -> Path:
    """Return the cache directory of downloads."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "odradek-tests"


def sources(into: Path) -> Path:
    """Return the unpacked source distribution, with the missing modules added."""
    name = f"kafka_python-{version('kafka-python')}"
    archive = cache() / f"{name}.tar.gz"
    if not archive.exists():
        _download(archive.parent)
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    tests = into / name / "test"
    (tests / "__init__.py").touch()
    (tests / "service.py").write_text(SERVICE_MODULE)
    return into / name


def _download(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    expected = f"kafka-python=={version('kafka-python')}"
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-build-isolation",
        "--no-binary=:all:",
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "--dest", str(into), expected], check=True
    )


def run_suite(folder: Path, bootstrap: str) -> dict[str, str]:
    """Run the tests; return the result of each: passed, skipped, or the failure."""
    report = folder / "report.xml"
    files = [f"test/integration/test_{suite}_integration.py" for suite in SUITES]
    options = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    options += [f"--timeout={TEST_SECONDS_MAX}", "--timeout-method=signal", "-o", "log_level=WARNING"]
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": "3.9",
        "KAFKA_ROOT": str(folder),
        "PYTHONPATH": str(folder),
    }
    with (folder / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, "-m", "pytest", *options, *files],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            check=False,
            timeout=ALL_SECONDS_MAX,
        )
    if not report.exists():
        raise SystemExit((folder / "output.txt").read_text()[-3000:])
    return {case.attrib["name"]: _outcome(case) for case in ElementTree.parse(report).iter("testcase")}


def _outcome(case: ElementTree.Element) -> str:
    for kind in ("failure", "error", "skipped"):
        if (result := case.find(kind)) is not None:
            line = result.attrib.get("message", "").splitlines() or [""]
            return kind if kind == "skipped" else f"{kind}: {line[0][:160]}"
    return "passed"


def unexpected(result: Mapping[str, str]) -> list[str]:
    """Return unexpected failures and unexpected passes."""
    failures = []
    for name, outcome in result.items():
        is_fine = outcome in ("passed", "skipped")
        if name in EXPECTED_FAILURES and is_fine:
            failures.append(f"{name} {outcome}: expected to fail ({EXPECTED_FAILURES[name]})")
        elif name not in EXPECTED_FAILURES and not is_fine:
            failures.append(f"{name}: {outcome}")
    return [*failures, *(f"{name} did not run" for name in EXPECTED_FAILURES if name not in result)]


def main() -> int:
    """Start a broker, run, report."""
    with tempfile.TemporaryDirectory(prefix="odradek-kafka-python-") as directory:
        folder = sources(Path(directory))
        if FOREIGN_BOOTSTRAP is not None:
            result = run_suite(folder, FOREIGN_BOOTSTRAP)
        else:
            broker = Broker(Path(directory) / "broker", SETTINGS).start()
            result = run_suite(folder, broker.bootstrap)
            broker.stop()
    for name, outcome in result.items():
        print(f"{name}: {outcome}" + (f" ({EXPECTED_FAILURES[name]})" if name in EXPECTED_FAILURES else ""))
    failures = unexpected(result)
    passed = sum(outcome == "passed" for outcome in result.values())
    label = f"kafka-python {version('kafka-python')}"
    print(f"{label}: {passed} of {len(result)} passed, {len(failures)} unexpected")
    for line in failures:
        print(f"  {line}")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
