"""Build the compiled record codec (Cython) and the compiled modules (mypyc).

Without a compiler, or with ODRADEK_PURE=1, the package runs from its Python sources alone.
"""

from __future__ import annotations

import ast
import os
import shutil
import sys
from glob import glob
from importlib import util
from multiprocessing.pool import ThreadPool
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

PACKAGE = "src/odradek"
CODEC = f"{PACKAGE}/records/compiled"
CODEC_MODULES = ("record_batch", "compaction", "producer", "consumer")
# Shared declarations: in the source distribution, and a change rebuilds all modules.
DECLARATIONS = sorted(glob(f"{CODEC}/*.pxd") + glob(f"{CODEC}/include/*.h"))

PURE = os.environ.get("ODRADEK_PURE") == "1"
COMPILED = (
    "broker/coordinators/*.py",
    "broker/handlers/*.py",
    "broker/network/connection_scheduler.py",
    "broker/network/memory_pool.py",
    "broker/network/request_queue.py",
    "broker/network/session.py",
    "broker/network/session_factory.py",
    "broker/requests/current_leader.py",
    "broker/requests/dispatcher.py",
    "broker/requests/pending_response.py",
    "broker/topics/admin.py",
    "broker/topics/metadata_responses.py",
    "client/consumer/fetch/*.py",
    "client/consumer/iteration.py",
    "client/consumer/positions/*.py",
    "client/network/*.py",
    "client/producer/accumulator/*.py",
    "client/producer/sender/*.py",
    "client/producer/sticky_partitioner.py",
    "client/producer/transactions/*.py",
    "cluster/*.py",
    "coordinators/*.py",
    "coordinators/*/*.py",
    "coordinators/*/*/*.py",
    "log/leader_epoch_cache.py",
    "log/local_log.py",
    "log/log.py",
    "log/log_state.py",
    "log/producers/*.py",
    "log/segments/*.py",
    "net/*.py",
    "ports/files.py",
    "records/append_rules.py",
    "records/batch.py",
    "records/batch_producer.py",
    "records/layout.py",
    "records/validation.py",
    "replication/*.py",
    "replication/*/*.py",
    "system/clock.py",
    "system/files.py",
    "system/socket_connection.py",
    "timers/purgatory.py",
    "timers/threshold_purgatory.py",
    "timers/timing_wheel.py",
    "wire/client_connection.py",
    "wire/frames.py",
    "wire/headers.py",
    "wire/primitives.py",
    "wire/server_connection.py",
)
"""Sources that mypyc compiles, together: each may call the others without the interpreter."""

INTERPRETED = (
    "broker/coordinators/transaction_marker_writer.py",
    "broker/handlers/alter_configs.py",
    "client/network/network_client.py",
    "client/producer/engine.py",
    "cluster/metadata_version.py",
    "log/segments/page_in.py",
    "replication/isr/alter_partition_manager.py",
    "replication/log_dirs/alter_log_dirs.py",
)
"""Others there: tests replace their classes, or their coroutines wait while they handle an exception."""

# Types of other packages do not matter to the compiled code, and they need not be installed for a build.
MYPY_OPTIONS = [
    "--config-file=",
    "--explicit-package-bases",
    "--follow-imports=silent",
    "--ignore-missing-imports",
]


def load_compiled_modules() -> Any:
    """Return the module that decides whether compiled modules run; it imports nothing of the package."""
    spec = util.spec_from_file_location("compiled_modules", f"{PACKAGE}/compiled_modules.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cython_extensions() -> list[Extension]:
    """Return the record codec, and the loader of the compiled modules."""
    from Cython.Build import cythonize

    loader = load_compiled_modules().LOADER
    extensions = [
        Extension(f"odradek._compiled.{loader}", [f"{PACKAGE}/{loader}.pyx"], optional=True),
        *codec_extensions(),
    ]
    built: list[Extension] = cythonize(extensions, language_level="3")
    return built


def codec_extensions() -> list[Extension]:
    return [
        Extension(
            f"odradek.records.compiled.{module}",
            [f"{CODEC}/{module}.pyx"],
            depends=[f"{CODEC}/{module}.pyx", *DECLARATIONS],
            # No -march: one wheel runs everywhere, and the CRC instruction is detected at run time.
            extra_compile_args=["-O3"],
            optional=True,
        )
        for module in CODEC_MODULES
    ]


def compiled_sources() -> list[str]:
    found = {os.path.relpath(path, PACKAGE) for pattern in COMPILED for path in glob(f"{PACKAGE}/{pattern}")}
    return sorted(path for path in found.difference(INTERPRETED) if not path.endswith("__init__.py"))


def inlined_sources(compiled: list[str]) -> list[str]:
    """Return the other sources that the compiled ones import: mypyc copies their constants."""
    found: set[str] = set()
    for source in compiled:
        with open(f"{PACKAGE}/{source}", encoding="utf-8") as file:
            tree = ast.parse(file.read())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("odradek"):
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                found.update(f"{'/'.join(str(name).split('.')[1:])}.py" for name in names)
    return sorted(path for path in found - set(compiled) if os.path.isfile(f"{PACKAGE}/{path}"))


def module_extensions() -> list[Extension]:
    try:
        from mypyc.build import mypycify
    except ImportError as error:
        print(f"the modules are not compiled: {error}", file=sys.stderr)
        return []
    os.environ["MYPYPATH"] = "src"
    rules = load_compiled_modules()
    extensions: list[Extension] = mypycify(
        [*MYPY_OPTIONS, *(f"{PACKAGE}/{source}" for source in compiled_sources())],
        opt_level="2",
        debug_level="0",
        multi_file=True,
        group_name=rules.LIBRARY.removesuffix("__mypyc"),
    )
    # mypyc names the library first, then a file for each module, which the loader makes superfluous.
    library = extensions[0]
    assert library.name == rules.LIBRARY
    library.name, library.optional = f"odradek._compiled.{library.name}", True
    return [library]


class BuildExtensions(build_ext):
    """Compiles on all cores, and notes the sources of the compiled modules once all of them are built."""

    def run(self) -> None:
        rules = load_compiled_modules()
        places = {self._directory(), self._directory(inplace=True)} if self.extensions else set()
        for place in places:
            shutil.rmtree(place, ignore_errors=True)  # no old one if the build of an extension fails
            if self.inplace:
                os.makedirs(place)
        super().run()
        compiled = compiled_sources()
        content = rules.describe_sources(compiled, inlined_sources(compiled))
        for place in places:
            if all(os.path.exists(rules.file_of(name, place)) for name in (rules.LIBRARY, rules.LOADER)):
                with open(os.path.join(place, rules.SOURCES), "w", encoding="utf-8") as file:
                    file.write(content)

    def _directory(self, *, inplace: bool = False) -> str:
        """Return where the compiled modules are built, or, in place, where an editable package has them."""
        before, self.inplace = self.inplace, self.inplace or inplace
        try:
            return os.path.dirname(self.get_ext_fullpath("odradek._compiled.any"))
        finally:
            self.inplace = before

    def build_extensions(self) -> None:
        compile_one = self.compiler.compile

        def compile_all(sources: list[str], *arguments: Any, **options: Any) -> list[str]:
            with ThreadPool(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_one([source], *arguments, **options), sources)
            return [name for names in objects for name in names]

        self.compiler.compile = compile_all
        super().build_extensions()


setup(
    ext_modules=[] if PURE else [*cython_extensions(), *module_extensions()],
    cmdclass={"build_ext": BuildExtensions},
)
