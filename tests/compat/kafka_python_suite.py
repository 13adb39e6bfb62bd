"""kafka-python's own integration tests against our broker: ``python -m tests.compat.kafka_python_suite``.

The source distribution of the version that is installed here brings them; it is downloaded once into a cache
outside the repository. Two modules that it leaves out are put beside the tests. ``NOT_YET`` names what cannot
pass, and why; a test of it that does pass is told too, so that its row is removed. Ends with status 1 if
anything went otherwise than this says.
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
"""Its tests have sessions of three seconds, wait fifteen for a group of four to come together, and find
four partitions in a topic that they did not create: its own brokers are set up so."""

SERVICE = '''"""What is asked of a broker that is running already: nothing."""


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

CLUSTERS = "comes with clusters"
NOT_YET: Mapping[str, str] = {
    "test_create_describe_delete_acls": "comes with access control",
    "test_elect_leaders": CLUSTERS,
    "test_alter_partition_reassignments": CLUSTERS,
    "test_list_partition_reassignments": CLUSTERS,
}


def cache() -> Path:
    """Where downloads are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "odradek-tests"


def sources(into: Path) -> Path:
    """The distribution, unpacked, with what it leaves out."""
    name = f"kafka_python-{version('kafka-python')}"
    archive = cache() / f"{name}.tar.gz"
    if not archive.exists():
        _download(archive.parent)
    with tarfile.open(archive) as packed:
        packed.extractall(into, filter="data")
    tests = into / name / "test"
    (tests / "__init__.py").touch()
    (tests / "service.py").write_text(SERVICE)
    return into / name


def _download(into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    wanted = f"kafka-python=={version('kafka-python')}"
    how = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--no-binary=:all:"]
    subprocess.run([sys.executable, "-m", "pip", "download", *how, "--dest", str(into), wanted], check=True)


def outcomes(folder: Path, bootstrap: str) -> dict[str, str]:
    """Run the tests; what became of each: passed, skipped, or why it failed."""
    report = folder / "report.xml"
    files = [f"test/integration/test_{suite}_integration.py" for suite in SUITES]
    how = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", f"--junit-xml={report}"]
    how += [f"--timeout={TEST_SECONDS_MAX}", "--timeout-method=signal", "-o", "log_level=WARNING"]
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{bootstrap}",
        "KAFKA_VERSION": "3.9",
        "KAFKA_ROOT": str(folder),
        "PYTHONPATH": str(folder),
    }
    with (folder / "output.txt").open("wb") as output:
        subprocess.run(
            [sys.executable, "-m", "pytest", *how, *files],
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
        if (found := case.find(kind)) is not None:
            words = found.attrib.get("message", "").splitlines() or [""]
            return kind if kind == "skipped" else f"{kind}: {words[0][:160]}"
    return "passed"


def unexpected(found: Mapping[str, str]) -> list[str]:
    """Tests that failed and should not, and that passed and could not."""
    wrong = []
    for name, outcome in found.items():
        is_fine = outcome in ("passed", "skipped")
        if name in NOT_YET and is_fine:
            wrong.append(f"{name} {outcome}: it is listed as what {NOT_YET[name]}")
        elif name not in NOT_YET and not is_fine:
            wrong.append(f"{name}: {outcome}")
    return [*wrong, *(f"{name} was not there" for name in NOT_YET if name not in found)]


def main() -> int:
    """Start a broker, run, report."""
    with tempfile.TemporaryDirectory(prefix="odradek-kafka-python-") as directory:
        folder = sources(Path(directory))
        if FOREIGN_BOOTSTRAP is not None:
            found = outcomes(folder, FOREIGN_BOOTSTRAP)
        else:
            broker = Broker(Path(directory) / "broker", SETTINGS).start()
            found = outcomes(folder, broker.bootstrap)
            broker.stop()
    for name, outcome in found.items():
        print(f"{name}: {outcome}" + (f" ({NOT_YET[name]})" if name in NOT_YET else ""))
    wrong = unexpected(found)
    passed = sum(outcome == "passed" for outcome in found.values())
    whose = f"kafka-python {version('kafka-python')}"
    print(f"{whose}: {passed} of {len(found)} passed, {len(wrong)} not as expected")
    for words in wrong:
        print(f"  {words}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
