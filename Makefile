# Every target works on a fresh machine: it creates .venv if it is missing or out of date.
# `make` alone lists the targets.

PY := .venv/bin/python
JOBS ?= 2
# Tests wait as well as compute: for elections, for sessions that end, for timers of clients.
# More workers than cores work while they do.
WORKERS ?= $(shell expr $(JOBS) + 3)

# Compiles kernels that were edited since set-up, so that no test has to.
WARM := from ledgerstone.records.kernels import load; load(print)

# Many containers set it; every process would compile what it imports again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fmt bench bench-peers crash sim kafka-reads docs release audit clean

SIM_RUN = --seeds $(or $(SEEDS),200) --first $(or $(FIRST),0) --jobs $(JOBS) $(if $(SCRIPT),--script $(SCRIPT))
SIM_PROFILE = $(if $(PROFILE),--profile $(PROFILE))
SIM_CLUSTER = $(if $(MUTANTS),tests.sim.mutants --write --jobs $(JOBS) $(SIM_PROFILE),ledgerstone.sim $(SIM_PROFILE) $(SIM_RUN))
SIM_QUORUM = $(if $(MUTANTS),tests.sim.quorum.mutants --write,ledgerstone.sim.quorum --marks $(SIM_RUN))
SIM_REPLICAS = $(if $(MUTANTS),tests.sim.replicas.mutants --write,ledgerstone.sim.replicas --marks $(SIM_RUN))
SIM_CONTROLLER = $(if $(MUTANTS),tests.sim.controller.mutants --write,ledgerstone.sim.controller --marks $(SIM_RUN))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## create .venv from the locked requirements (every target sets up what it needs)
	@tools/setup

demo: ## turn a git history into a topic and a table, compact it, erase a key
	@tools/setup demo
	@.venv/bin/ledgerstone demo $(DEMO)

# CPU=1 adds where the CPU seconds went. CONNECT=1 runs streams over Spark Connect and in Declarative Pipelines
# instead, with the packages that both need beside ours.
test: setup ## run the test suite, without the slow sweeps and without Kafka; CONNECT=1 runs Spark Connect instead
	@$(PY) -c '$(WARM)'
ifdef CONNECT
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade --target .cache/connect \
	    --require-hashes -r requirements/connect.txt
	@PYTHONPATH=.cache/connect $(PY) -m pytest -q -m slow tests/spark/test_connect.py
else
	@$(PY) -m pytest -q -n $(WORKERS) --max-worker-restart 0 -m "not slow and not kafka" $(if $(CPU),-p tests.kit.cpu_times)
endif

check: setup ## check format, lint, types, import contracts, house rules
	@.venv/bin/ruff format --check --quiet . || { echo "formatting differs: make fmt"; exit 1; }
	@.venv/bin/ruff check --quiet .
	@$(PY) -m mypy src tests tools bench examples
	@.venv/bin/lint-imports --no-logo
	@$(PY) tools/codegen.py --check
	@$(PY) tools/reference.py --check
	@$(PY) tools/tidy.py

fmt: setup ## format, and fix what the linter can fix
	@.venv/bin/ruff check --fix --quiet .
	@.venv/bin/ruff format --quiet .

bench-peers: setup ## benchmark against Apache Kafka and Spark's own connector; needs Java and Maven
	@$(PY) -m bench.peers $(PEERS)

bench: setup ## run every benchmark, each next to a peer or a limit of this machine
	@$(PY) -m bench

# glibc's checker aborts a process at the first write past the end of a block.
# Properties get all of their examples here; `make test` plays a third of them.
# With KILLS=20 only pipelines on a Spark cluster are struck; KINDS=duckdb,join limits that to some jobs,
# MINUTES=15 the time of tables and of streams. A run prints its SEED, which decides what is struck and when.
crash: export HYPOTHESIS_PROFILE ?= thorough
crash: setup ## run the slow sweeps: a crash at every disk operation; all examples; KILLS=20 strikes Spark instead
	@$(PY) -c '$(WARM)'
ifdef KILLS
	@LEDGERSTONE_STRIKES=$(KILLS) LEDGERSTONE_STRIKES_SEED=$(SEED) LEDGERSTONE_STRIKES_KINDS="$(KINDS)" \
	    LEDGERSTONE_STRIKES_MINUTES=$(MINUTES) $(PY) -m pytest -q -s -m slow tests/spark/test_cluster_kills.py
else
	@LD_PRELOAD=libc_malloc_debug.so.0 MALLOC_CHECK_=3 MALLOC_PERTURB_=205 PYTHONMALLOC=malloc \
	    $(PY) -m pytest -q -n $(JOBS) --max-worker-restart 0 -m "not slow" tests/unit/records \
	    tests/unit/cleaner tests/unit/erasure tests/unit/state tests/unit/spark
	@$(PY) -m pytest -q -n $(JOBS) --max-worker-restart 0 -m "slow or (hypothesis and not kafka)"
endif

# SCRIPT=file replays one scenario, FIRST=n starts at another seed. MUTANTS=1 shows that the simulator
# can fail, and renews the table in its README.
# PROFILE=transactions has other clients.
sim: setup ## simulate under faults: SEEDS=200 PROFILE=transactions, quorum, controller or replicas, or SCRIPT=file, or MUTANTS=1
	@$(PY) -c '$(WARM)'
	@$(PY) -m $(if $(filter quorum,$(PROFILE)),$(SIM_QUORUM),$(if $(filter controller,$(PROFILE)),$(SIM_CONTROLLER),$(if $(filter replicas,$(PROFILE)),$(SIM_REPLICAS),$(SIM_CLUSTER))))

kafka-reads: setup ## run Apache Kafka's tools, broker and Streams on what we write
	@command -v java >/dev/null && command -v mvn >/dev/null || \
	    { echo "Java or Maven is missing: apt-get install default-jdk-headless maven"; exit 1; }
	@$(PY) -c '$(WARM)'
	@$(PY) -m pytest -q -m kafka tests/compat tests/transactions

docs: setup ## build the documentation as a site, in site/
	@$(PY) tools/reference.py --metrics
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet

release: setup ## build what is published, twice and alike, in dist/: archives, list of parts, hashes
	@$(PY) tools/release.py

# Needs the network: the JSON API of PyPI, not only its packages.
audit: setup ## ask PyPI which pinned packages have known faults
	@$(PY) tools/audit.py

clean: ## remove .venv and every cache in this directory
	@rm -rf .venv build dist site .cache .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
