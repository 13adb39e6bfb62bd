# Every target does its own set-up in .venv, from the package registries alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KAFKA2 := .venv-kafka2
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
STAMP := $(VENV)/.ready
KAFKA2_STAMP := $(KAFKA2)/.ready
COMPILED := $(VENV)/.compiled
ONLY ?=
FRAMES ?= 1000000
SEED ?= 1
SEEDS ?= 300
SECONDS ?= 600
ROUNDS ?= 0
CONTROLLER ?=
COUNT ?= 20
MODULES ?= src/odradek/log src/odradek/coordinators src/odradek/replication spark-writer
KAFKA ?= 3.9.1
IBP ?=
FULL ?=
CLUSTER ?=
# A worker for each core; more than eight only take memory.
PARALLEL := -n logical --maxprocesses 8 --dist worksteal

# Tests start hundreds of Python processes: none should compile the same modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: security help setup compile demo test lint types imports format unit pure contracts simulation cluster cluster-more integration clients compat compat-cluster spark compat-kafka-python clients-on-kafka capture-cluster spark-jvm-connector mixed-cluster mixed-plants secured-kafka faults broker-faults cluster-faults cluster-operations cluster-plants model sim sim-plants fuzz mutants plants bench docs clean

help:  ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 22

$(STAMP): pyproject.toml setup.py
	@echo "setting up $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade pip
	@ODRADEK_PURE=1 $(PIP) --editable '.[dev]'  # compiled in the next step, with the tools installed here
	@touch $@

# The codec is compiled again when its source changes. Modules whose source changes run from it, until `make compile`.
$(COMPILED): $(STAMP) $(wildcard src/odradek/records/compiled/*.pyx src/odradek/records/compiled/*.pxd src/odradek/records/compiled/include/*.h)
	@echo "compiling (one minute) ..."
	@$(BIN)/python setup.py --quiet build_ext --inplace
	@touch $@

compile: $(COMPILED)  ## compile the modules again if a source has changed
	@$(BIN)/python -c 'from odradek.compiled_modules import COMPILED; raise SystemExit(not COMPILED)' || $(BIN)/python setup.py --quiet build_ext --inplace

# kafka-python 2 shares its package name with 3, so it lives in an environment of its own.
$(KAFKA2_STAMP): tests/requirements-kafka-python-2.txt
	@echo "setting up $(KAFKA2) ..."
	@test -x $(KAFKA2)/bin/python || $(PYTHON) -m venv $(KAFKA2)
	@$(KAFKA2)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

setup: compile $(KAFKA2_STAMP)  ## the environments in .venv and .venv-kafka2, and nothing more

demo: $(COMPILED)  ## a year of flights: events on a broker, a table and a topic by Spark, a plot
	@$(BIN)/python examples/demo.py

# Tests of replaced parts of modules run in the part `pure` only, all others on the compiled modules too.
# One part computes while another waits for brokers and sessions. The output of a part comes when it ends.
TEST_PARTS := lint integration unit cluster pure simulation compat clients contracts spark model security compat-cluster

test: setup  ## everything CI runs, two parts at a time
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(TEST_PARTS)

lint: $(STAMP)  ## format, rules, types, direction of imports
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(STAMP)  ## put the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

unit: $(COMPILED)  ## pure tests: no files, no network
	@$(BIN)/pytest $(PARALLEL) tests/unit tests/scripts tests/tidy tests/golden tests/typed

pure: $(COMPILED)  ## the pure tests, and all that replace parts of modules, on the Python sources
	@ODRADEK_PURE=1 $(BIN)/pytest $(PARALLEL) tests/unit tests/scripts tests/golden

contracts: $(COMPILED)  ## one suite per port, on the fake and on the real one
	@$(BIN)/pytest tests/contracts

simulation: $(COMPILED)  ## whole clusters on virtual time, with faults: 200 seeds, 300 under our controller
	@$(BIN)/pytest $(PARALLEL) tests/simulation

cluster: $(COMPILED)  ## clusters of three processes on a real ZooKeeper, with faults
	@$(BIN)/pytest --timeout 300 tests/cluster_faults --ignore tests/cluster_faults/more

cluster-more: $(COMPILED)  ## the same with all faults of links, requests, disks, copies, clocks and coordinators
	@$(BIN)/pytest --timeout 300 tests/cluster_faults/more -k "$(ONLY)"

integration: $(COMPILED)  ## real processes on loopback
	@$(BIN)/pytest tests/integration tests/faults tests/fuzz

clients: $(COMPILED)  ## our clients and the examples of the documentation, with a real broker
	@$(BIN)/pytest -n 2 tests/clients tests/docs

spark: $(COMPILED)  ## source, sinks and pipelines on a local Spark
	@$(BIN)/pytest -n 2 --dist loadgroup tests/spark

security: $(COMPILED)  ## secured brokers with every client; faults of a secured cluster: SECURED=1 make cluster
	@$(BIN)/pytest -n 2 tests/security

faults: broker-faults cluster-faults  ## all faults at length, those of one broker and those of a cluster

broker-faults: $(COMPILED)  ## what breaks, played at length: torn files, flipped bits, kills, full disks
	@$(BIN)/python -m tests.faults.run --seed $(SEED)

cluster-faults: $(COMPILED)  ## faults of a cluster at length, and times without acknowledgements: make cluster-faults SECONDS=600 SEED=1, or ROUNDS=30 ONLY=R6,R7
	@$(BIN)/python -m tests.cluster_faults.run --seconds $(SECONDS) --rounds $(ROUNDS) --seed $(SEED) --only "$(ONLY)"

cluster-operations: $(COMPILED)  ## operations of a cluster under load: make cluster-operations ONLY=upgrade
	@$(BIN)/pytest --timeout 300 tests/cluster_operations -k "$(ONLY)"

cluster-plants: $(COMPILED)  ## mistakes in our broker that clusters of processes must find: make cluster-plants ONLY=epoch
	@$(BIN)/python -m tests.cluster_faults.run_plants --only "$(ONLY)"

model: $(COMPILED)  ## every state of the replication rules within bounds, and the way to each planted bug: make model FULL=1
	@$(BIN)/pytest $(PARALLEL) tests/model
	@nice -n 10 $(BIN)/python -m tests.model.run $(if $(FULL),--full)

compat: $(COMPILED) $(KAFKA2_STAMP)  ## other people's clients against us: make compat CLUSTER=3
	@$(BIN)/pytest -n 2 $(if $(CLUSTER),--cluster $(CLUSTER)) tests/compat

compat-cluster: $(COMPILED) $(KAFKA2_STAMP)  ## a part of the same against three brokers with three replicas
	@$(BIN)/pytest -n 2 --cluster 3 --quick tests/compat

compat-kafka-python: $(COMPILED)  ## kafka-python's own tests, from its source distribution, against us
	@$(BIN)/python -m tests.compat.kafka_python_suite

# Needs Maven Central (once) and Java 17; not part of `make test`.
clients-on-kafka: $(COMPILED)  ## our clients' own tests against Apache Kafka: make clients-on-kafka KAFKA=4.1.1
	@$(BIN)/python -m tests.support.apache_kafka $(KAFKA)
	@PYTHONPATH=$(CURDIR) ODRADEK_TEST_BROKER="$(CURDIR)/$(BIN)/python -m tests.support.apache_kafka $(KAFKA)" \
		$(BIN)/pytest -n 2 tests/clients

# Needs Maven Central (once) and Java 17; not part of `make test`.
capture-cluster: $(COMPILED)  ## record the traffic between Apache Kafka brokers again: make capture-cluster IBP="2.8 3.9"
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m tests.support.interbroker.record $(IBP)

# Needs Maven Central (once) and Java 17; not part of `make test`.
spark-jvm-connector: $(COMPILED)  ## Spark's own Kafka connector against our broker, and our source beside it
	@ODRADEK_SPARK_JVM=1 PYTHONPATH=$(CURDIR) $(BIN)/pytest tests/compat/test_spark_jvm_connector.py

# Needs Maven Central (once) and Java 17; not part of `make test`.
mixed-cluster: $(COMPILED)  ## our broker and Apache Kafka's in one cluster on ZooKeeper: make mixed-cluster SHAPE=1+2 CONTROLLER=own ONLY=transactions
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m tests.mixed.harness.kafka_tools $(KAFKA)
	@MIXED_CONTROLLER=$(CONTROLLER) MIXED_SHAPE=$(SHAPE) PYTHONPATH=$(CURDIR) $(BIN)/pytest --timeout 600 --durations 0 --durations-min 60 tests/mixed -k "$(ONLY)"

mixed-plants: $(COMPILED)  ## mistakes in our broker that the mixed cluster must find: make mixed-plants ONLY=truncate
	@$(BIN)/python -m tests.mixed.run_plants --only "$(ONLY)"

# Needs Maven Central (once) and Java 17; not part of `make test`.
secured-kafka: $(COMPILED)  ## our clients on a secured Apache Kafka, its tools on our secured broker: make secured-kafka ONLY=acls
	@PYTHONPATH=$(CURDIR) $(BIN)/python -m tests.mixed.harness.kafka_tools $(KAFKA)
	@PYTHONPATH=$(CURDIR) $(BIN)/pytest --timeout 600 tests/secured_kafka -k "$(ONLY)"

sim: $(COMPILED)  ## more seeds of the simulation: make sim SEEDS=3000 SEED=1 CONTROLLER=own
	@$(BIN)/python -m tests.simulation.run --seeds $(SEEDS) $(if $(BROKERS),--brokers $(BROKERS)) --first $(SEED) --controller $(or $(CONTROLLER),scripted)

sim-plants: $(COMPILED)  ## mistakes of replication that the simulation must find: make sim-plants SEEDS=300 ONLY=truncate
	@$(BIN)/python -m tests.simulation.run_plants --seeds $(SEEDS) --first $(SEED) --only "$(ONLY)" --controller $(or $(CONTROLLER),scripted)

fuzz: $(COMPILED)  ## long protocol fuzzing: make fuzz FRAMES=1000000 SEED=1, or MODE=secured for TLS and SASL
	@$(BIN)/python -m tests.fuzz.run --frames $(FRAMES) --seed $(SEED) --mode $(or $(MODE),plaintext)

mutants: $(COMPILED)  ## bugs planted one by one, that tests must notice: make mutants MODULES=src/odradek/log COUNT=20 SEED=1
	@ODRADEK_PURE=1 nice -n 19 $(BIN)/python -m tests.mutation.run --count $(COUNT) --seed $(SEED) $(MODULES)

plants: $(COMPILED)  ## each promise of docs/guarantees.md broken on purpose: make plants ONLY=retention
	@ODRADEK_PURE=1 nice -n 19 $(BIN)/python -m tests.mutation.run_plants $(ONLY)

bench: compile  ## ratios beside Apache Kafka: make bench ONLY=B1,B5
	@ONLY=$(ONLY) $(BIN)/python -m bench

docs: $(STAMP)  ## write the generated reference pages
	@$(BIN)/python -m odradek.config.reference.configuration_page > docs/configuration.md
	@$(BIN)/python -m odradek.config.reference.client_options_page > docs/client-options.md
	@$(BIN)/python -m odradek.broker.reference docs
	@$(BIN)/odradek command-reference > docs/cli.md

clean:
	rm -rf $(VENV) $(KAFKA2) build *.egg-info src/*.egg-info
	rm -rf src/odradek/_compiled
	find src -name '*.so' -delete
