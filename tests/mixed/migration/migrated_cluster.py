"""A cluster whose brokers are replaced by brokers of the other kind, on the same data directories."""

from __future__ import annotations

from pathlib import Path

from tests.mixed.harness.broker_spec import Kind
from tests.mixed.harness.mixed_cluster import ALL_KAFKA, MixedCluster

LOG_DIR_COUNT = 2
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
META_PROPERTIES = "meta.properties"


class MigratedCluster(MixedCluster):
    """Brokers 0, 1 and 2, at first all of Kafka, each with two log directories.

    Any broker may be the controller: elections are left to the brokers, as in operation.
    """

    def __init__(self, classpath: str, home: Path, ibp: str) -> None:
        super().__init__(classpath, home, ALL_KAFKA)
        for broker, spec in self.specs.items():
            spec.ibp = ibp
            spec.log_dirs = [home / f"broker-{broker}-{number}" for number in range(LOG_DIR_COUNT)]

    @property
    def controller_name(self) -> str:
        """The id and the kind of the controller."""
        controller = self.znodes.controller()
        return f"{controller} ({self.specs[controller].kind.value})"

    @property
    def kind_names(self) -> str:
        return " ".join(spec.kind.value for spec in self.specs.values())

    def replace(self, broker: int, kind: Kind) -> None:
        """Shut the broker down and start one of the other kind in its place."""
        spec = self.specs[broker]
        assert spec.kind is not kind
        identity = [read_properties(log_dir / META_PROPERTIES) for log_dir in spec.log_dirs]
        self.stop(broker)
        for log_dir in spec.log_dirs:
            assert (log_dir / CLEAN_SHUTDOWN).exists(), f"{log_dir} must be marked as shut down cleanly"
        spec.kind = kind
        self.start(broker)
        if kind is Kind.KAFKA:
            self._check_skipped_recovery(broker)
        assert [read_properties(log_dir / META_PROPERTIES) for log_dir in spec.log_dirs] == identity

    def replace_killed(self, broker: int, kind: Kind) -> None:
        """Kill the broker and start one of the other kind, which recovers its logs."""
        spec = self.specs[broker]
        assert spec.kind is not kind
        self.kill(broker)
        for log_dir in spec.log_dirs:
            assert not (log_dir / CLEAN_SHUTDOWN).exists(), f"{log_dir} must need recovery"
        spec.kind = kind
        self.start_until_registered(broker)

    def _check_skipped_recovery(self, broker: int) -> None:
        """Check that Kafka found the logs that ours had closed complete."""
        output = (self.home / f"broker-{broker}.out").read_text(errors="replace")
        for log_dir in self.specs[broker].log_dirs:
            skips = f"logs from {log_dir} since clean shutdown file was found"
            assert skips in output, f"{log_dir} must not be recovered"

    def _keep_controller(self) -> bool:
        return self.znodes.controller() in self.running


def read_properties(path: Path) -> dict[str, str]:
    """Return the settings of a file without its comments, which have the time of writing."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)
