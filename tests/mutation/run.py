"""Plant mutants and list those that no test notices: ``python -m tests.mutation.run src/odradek/log``.

One process collects the tests once. A first fork runs them all and notes which blocks of code each enters.
Then every mutant gets a fork in which the code of its function is exchanged, and the tests that enter its
block run, the quickest first, until one fails. Property tests use fixed examples and do not shrink.

Survivors that were judged are listed in ``judged.txt``, beside this module, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import collections
import gc
import importlib
import json
import os
import pickle
import random
import resource
import signal
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from tests.mutation.mutants import Mutant, mutants_of, mutated, probed

ROOT = Path(__file__).resolve().parents[2]
JUDGED = Path(__file__).with_name("judged.txt")
RESULTS = ROOT / ".cache" / "mutants"
TESTS = {
    "src/odradek/log": [
        "tests/unit/log",
        "tests/golden/log",
        "tests/unit/broker/storage/test_log_maintenance.py",
        "tests/unit/broker/storage/test_power_loss.py",
        "tests/unit/broker/storage/test_log_dirs.py",
    ],
    "src/odradek/coordinators": [
        "tests/unit/coordinators",
        "tests/scripts",
        "tests/unit/broker/coordinators/test_group_coordinator.py",
        "tests/unit/broker/handlers/test_transactions.py",
    ],
    "src/odradek/replication": ["tests/unit/replication", "tests/unit/broker"],
    "src/odradek/spark": ["tests/unit/spark", "tests/spark/sink/test_transactions.py"],
}
"""Tests that are run for mutants of a folder."""
SPARK_WRITER = ("transactional_writer.py", "markers.py", "marker_store.py", "writer.py", "row_sender.py")
PYTEST_OPTIONS = ("-q", "-p", "no:randomly", "--timeout=0", "-p", "no:cacheprovider")
MEMORY_MAX = 6 << 30
WALL_SHARE = 6
"""Time on the wall that a mutant has, for each second of the processor: others may use it, too."""
Block = tuple[str, str, int]
"""Path, function and first line."""
NOTICED, UNNOTICED, WRONG = 0, 1, 2
"""Exit codes of a fork."""


class Outcome(NamedTuple):
    """Verdict on a mutant: the test that noticed it, or the reason why none did."""

    verdict: str
    by: str
    seconds: float


@dataclass
class Coverage:
    """Tests by the block of a function that they enter, and the time each takes."""

    tests_of: dict[Block, list[int]] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)

    is_near: dict[str, list[bool]] = field(default_factory=dict)
    """By path: whether each test lies where the module's own tests do."""

    def tests(self, mutant: Mutant, budget: float) -> list[int]:
        """Return the tests to run for a mutant: those near the module first, as many as there is time for."""
        entered = self.tests_of.get((mutant.path, mutant.function, mutant.block), [])
        near = self.is_near[mutant.path]
        chosen: list[int] = []
        for test in sorted(entered, key=lambda test: (not near[test], self.seconds[test])):
            budget -= self.seconds[test]
            if chosen and budget < 0:
                break
            chosen.append(test)
        return chosen


class Functions:
    """Functions of the mutated modules as they are loaded, by path and qualified name."""

    def __init__(self, paths: list[str]) -> None:
        self.by_name: dict[tuple[str, str], list[types.FunctionType]] = collections.defaultdict(list)
        for path in paths:
            importlib.import_module(".".join(Path(path).with_suffix("").parts[1:]).removesuffix(".__init__"))
        gc.unfreeze()  # what the garbage collector is spared is not among its objects, either
        wanted = {str(ROOT / path): path for path in paths}
        for function in [thing for thing in gc.get_objects() if isinstance(thing, types.FunctionType)]:
            code = function.__code__
            loaded_from = wanted.get(code.co_filename)
            if loaded_from is not None and "<locals>" not in code.co_qualname:
                self.by_name[loaded_from, code.co_qualname].append(function)
        if not self.by_name:
            raise LookupError(f"no function of {paths} is loaded")

    def exchange(self, mutant: Mutant, source: str) -> None:
        """Give the mutant's function its mutated code, wherever it is referred to."""
        if not self._exchange_all(mutant.path, mutated(source, mutant), only=mutant.function):
            raise ValueError("function is not found")

    def exchange_module(self, path: str, tree: ast.Module) -> int:
        """Give all functions of a module the code they have in this tree; return how many changed."""
        loaded = [each for (of_path, _), named in self.by_name.items() if of_path == path for each in named]
        before = [function.__code__ for function in loaded]
        self._exchange_all(path, tree, only=None)
        return sum(function.__code__ != code for function, code in zip(loaded, before, strict=True))

    def probe(self, path: str, source: str, entered: set[Block]) -> None:
        """Let the functions of a module tell which of their blocks are entered."""
        name = f"__entered_{path}"
        setattr(builtins, name, lambda function, line: entered.add((path, function, line)))
        self._exchange_all(path, probed(source, name), only=None)

    def _exchange_all(self, path: str, tree: ast.Module, only: str | None) -> int:
        module = compile(tree, str(ROOT / path), "exec", dont_inherit=True)
        codes = {(code.co_qualname, code.co_firstlineno): code for code in _codes(module)}
        exchanged = 0
        for (of_path, name), functions in self.by_name.items():
            for function in functions if of_path == path and only in {None, name} else ():
                code = codes.get((name, function.__code__.co_firstlineno))
                if code is not None:
                    function.__code__ = code
                    exchanged += 1
        return exchanged


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


class Mutation:
    """Pytest plugin that runs mutants where pytest would run the tests."""

    def __init__(self, mutants: list[Mutant], sources: dict[str, str], say: Callable) -> None:
        self.mutants, self.sources, self.say = mutants, sources, say
        self.timeout, self.budget = 10.0, 10.0
        self.outcomes: dict[Mutant, Outcome] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise session.Interrupted("tests cannot be collected")
        functions = Functions(sorted(self.sources))
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        coverage = self._covered(session, functions)
        for number, mutant in enumerate(self.mutants, 1):
            outcome = self._played(session, functions, coverage, mutant)
            self.outcomes[mutant] = outcome
            _save(mutant, outcome)
            if outcome.verdict in {"survived", "untested", "broken"}:
                self.say(f"{outcome.verdict}: {mutant.path}:{mutant.line} {mutant.function}")
                self.say(f"    {mutant.before}  =>  {mutant.after}   ({outcome.seconds:.1f} s)")
            if number % 50 == 0:
                self.say(f"... {number} of {len(self.mutants)}")
        return True

    def _covered(self, session: pytest.Session, functions: Functions) -> Coverage:
        """Run all tests in a fork; refuse if one fails without any mutant."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            with os.fdopen(write, "wb") as pipe:
                pickle.dump(_probed(session, functions, self.sources), pipe)
                pipe.flush()
                os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            coverage, failed = pickle.load(pipe)
        os.waitpid(pid, 0)
        if failed:
            raise session.Interrupted(f"tests fail without any mutant: {failed}")
        return coverage

    def _played(
        self, session: pytest.Session, functions: Functions, coverage: Coverage, mutant: Mutant
    ) -> Outcome:
        tests = coverage.tests(mutant, self.budget)
        if not tests:
            return Outcome("untested", "", 0)
        began = time.monotonic()
        limit = round(self.timeout + 3 * sum(coverage.seconds[test] for test in tests))
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
            os._exit(self._play(session, functions, mutant, tests, write))
        os.close(write)
        code = ended(pid, began + WALL_SHARE * limit)
        with os.fdopen(read, "rb") as pipe:
            by = pipe.read().decode()
        seconds = time.monotonic() - began
        if code is None or code < 0:
            return Outcome("timeout", by, seconds)
        return Outcome({NOTICED: "killed", UNNOTICED: "survived"}.get(code, "broken"), by, seconds)

    def _play(
        self, session: pytest.Session, functions: Functions, mutant: Mutant, tests: list[int], pipe: int
    ) -> int:
        try:
            functions.exchange(mutant, self.sources[mutant.path])
        except (ValueError, StopIteration):  # the change takes the last use of a name of an outer function
            return WRONG
        items = [session.items[test] for test in tests]
        for item, following in zip(items, [*items[1:], None], strict=True):
            try:
                reports = runtestprotocol(item, nextitem=following, log=False)
            except BaseException:  # noqa: BLE001 - a mutant may raise anything, anywhere
                os.write(pipe, item.nodeid.encode())
                return NOTICED
            if any(report.failed for report in reports):
                os.write(pipe, item.nodeid.encode())
                if following is not None:
                    item.session._setupstate.teardown_exact(None)
                return NOTICED
        return UNNOTICED


def _probed(
    session: pytest.Session, functions: Functions, sources: dict[str, str]
) -> tuple[Coverage, list[str]]:
    entered: set[Block] = set()
    for path, source in sources.items():
        functions.probe(path, source, entered)
    coverage, failed = Coverage(), []
    items = session.items
    for path in sources:
        folder = str(Path(path).parent).replace("src/odradek", "tests/unit")
        coverage.is_near[path] = [item.nodeid.startswith(folder) for item in items]
    for number, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
        entered.clear()
        began = time.monotonic()
        reports = runtestprotocol(item, nextitem=following, log=False)
        coverage.seconds.append(time.monotonic() - began)
        for block in entered:
            coverage.tests_of.setdefault(block, []).append(number)
        failed += [item.nodeid for report in reports if report.failed]
    return coverage, failed


def ended(pid: int, deadline: float) -> int | None:
    """Wait for a fork; end it, and what it started, when its time is up."""
    pause = 0.002
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def judged_survivors() -> dict[str, str]:
    """Read why survivors need no test: ``name # reason`` per line."""
    lines = JUDGED.read_text(encoding="utf-8").splitlines() if JUDGED.exists() else []
    pairs = (line.rsplit("  # ", 1) for line in lines if line.startswith("src/"))
    return {pair[0].strip(): pair[1].strip() for pair in pairs}


def earlier_survivors() -> set[str]:
    """Read which mutants survived when they were last played."""
    path = RESULTS / "outcomes.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    verdicts = {result["name"]: result["verdict"] for result in map(json.loads, lines)}
    return {name for name, verdict in verdicts.items() if verdict in {"survived", "untested"}}


def modules_of(targets: list[str]) -> list[str]:
    """Return the modules of files and folders; ``spark-writer`` stands for the writer's five."""
    modules: list[str] = []
    for target in targets:
        if target == "spark-writer":
            modules += [f"src/odradek/spark/sink/{name}" for name in SPARK_WRITER]
        elif target.endswith(".py"):
            modules.append(target)
        else:
            modules += sorted(str(path.relative_to(ROOT)) for path in (ROOT / target).rglob("*.py"))
    return modules


def tests_for(modules: list[str]) -> list[str]:
    tests = [test for folder, tests in TESTS.items() for test in tests if any(folder in m for m in modules)]
    return list(dict.fromkeys(tests))


def report(possible: dict[str, int], outcomes: dict[Mutant, Outcome], say: Callable) -> None:
    judged = judged_survivors()
    total: collections.Counter[str] = collections.Counter()
    say(f"{'module':58} possible sampled killed timeout survived judged")
    for path, count in possible.items():
        counts = collections.Counter({"possible": count})
        for mutant, outcome in outcomes.items():
            if mutant.path == path:
                survived = outcome.verdict in {"survived", "untested"}
                verdict = "judged" if survived and mutant.name in judged else outcome.verdict
                counts[{"untested": "survived"}.get(verdict, verdict)] += 1
                counts["sampled"] += verdict != "broken"
        total += counts
        say(f"{path:58} {_columns(counts)}")
    say(f"{'all':58} {_columns(total)}")


def _columns(counts: collections.Counter[str]) -> str:
    names = ("possible", "sampled", "killed", "timeout", "survived", "judged")
    return " ".join(f"{counts[name]:{max(len(name), 6)}}" for name in names)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("targets", nargs="+", help="files or folders of src, or spark-writer")
    parser.add_argument("--count", type=int, default=20, help="mutants per module (0: all)")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds a mutant has beyond its tests")
    parser.add_argument("--budget", type=float, default=4.0, help="seconds of tests that a mutant is worth")
    parser.add_argument("--tests", action="append", help="tests to run instead of the usual ones")
    parser.add_argument("--function", help="only mutants of functions whose name contains this")
    parser.add_argument("--again", action="store_true", help="only what survived earlier and is not judged")
    chosen = parser.parse_args()
    stream = os.fdopen(os.dup(2), "w", buffering=1)
    modules = modules_of(chosen.targets)
    sources = {path: (ROOT / path).read_text(encoding="utf-8") for path in modules}
    by_path = {path: mutants_of(path, source) for path, source in sources.items()}
    mutants = [
        mutant
        for path, all_of_it in by_path.items()
        for mutant in _sampled(all_of_it, chosen.count, f"{chosen.seed}:{path}")
        if chosen.function is None or chosen.function in mutant.function
    ]
    if chosen.again:
        survivors = earlier_survivors() - judged_survivors().keys()
        mutants = [mutant for of_it in by_path.values() for mutant in of_it if mutant.name in survivors]
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    RESULTS.mkdir(parents=True, exist_ok=True)
    plugin = Mutation(mutants, sources, lambda text: print(text, file=stream))
    plugin.timeout, plugin.budget = chosen.timeout, chosen.budget
    with tempfile.TemporaryDirectory(prefix="odradek-mutants-") as scratch:
        code = pytest.main(
            [*PYTEST_OPTIONS, f"--basetemp={scratch}/base", *(chosen.tests or tests_for(modules))],
            plugins=[plugin],
        )
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        return int(code)
    report({path: len(of_it) for path, of_it in by_path.items()}, plugin.outcomes, plugin.say)
    return 0


def _sampled(mutants: list[Mutant], count: int, seed: str) -> list[Mutant]:
    if count == 0 or count >= len(mutants):
        return mutants
    return sorted(random.Random(seed).sample(mutants, count), key=lambda mutant: mutant.line)


def _save(mutant: Mutant, outcome: Outcome) -> None:
    """Note an outcome at once: a run that is broken off has result something, too."""
    result = {"name": mutant.name, "line": mutant.line, **outcome._asdict()}
    with (RESULTS / "outcomes.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    sys.exit(main())
