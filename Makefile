PYTHON ?= python3
SCENARIO ?= engine
# Processes that run tests, each with a database server of its own: one more than there are cores,
# because tests often wait for the programs that they start.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
BIN := .venv/bin
# Say what .venv has: all that running needs, and also all that development and tests need.
RUNNABLE := .venv/.runnable
CURRENT := .venv/.current
PYTEST := $(BIN)/pytest --numprocesses=$(WORKERS) --dist=worksteal

# The machine's uv where it has one, else a private one; both trust the system's certificates.
UV := $(or $(shell command -v uv 2>/dev/null),.venv-tools/bin/uv)
export UV_SYSTEM_CERTS := true
export UV_PYTHON_DOWNLOADS := never

.DEFAULT_GOAL := help
.PHONY: help setup run test test-fast test-15 test-16 test-17 coverage needs check bench bench-compare docs wheel lock

help: ## list the targets
	@sed -n 's/^\([a-z0-9 -]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: $(CURRENT) ## make .venv from the locks, with the laneway command; nothing to do when current

run: $(RUNNABLE) ## start the server, on the embedded database unless the environment names another
	$(BIN)/laneway serve

test: setup needs ## run every test on PostgreSQL 18, then those that touch a database on 15
	$(PYTEST)
	$(MAKE) --no-print-directory test-15

test-fast: setup ## run the tests of an inner loop: units, SQL functions, and behaviours on every surface
	$(PYTEST) tests/unit tests/sql tests/conformance

test-15 test-16 test-17: test-%: setup ## run the tests that touch a database on that PostgreSQL
	tests/install/postgresql $*
	LANEWAY_TEST_POSTGRES=$* $(PYTEST) tests/sql tests/integration tests/faults -m "not bundled"

coverage: setup needs ## run every test on PostgreSQL 18 and tell which lines and branches none runs through
	$(PYTEST) --cov --cov-report=term

needs:
	tests/install/node
	tests/install/java
	tests/install/sqs-clients
	tests/install/pgbouncer
	tests/install/redis
	tests/install/chain

check: setup ## format, lint, types, layers, the style of SQL, and locks and generated files current
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python requirements/lock.py --check
	$(BIN)/python -m tools.sql_style
	$(BIN)/python -m tools.reference --check
	$(BIN)/python -m tools.derivation --check

bench: setup ## measure one SCENARIO (default: engine)
	$(BIN)/python -m benchmarks $(SCENARIO)

bench-compare: setup ## measure one SCENARIO on revision BASE and on this checkout, in turns
	$(if $(BASE),,$(error BASE is not set; run: make bench-compare BASE=revision))
	$(BIN)/python -m benchmarks compare $(BASE) --scenario $(SCENARIO)

docs: setup ## write docs/functions.md and the schema's catalogue from the SQL files, and the synchronous library
	$(BIN)/python -m tools.reference
	$(BIN)/python -m tests.catalogue
	$(BIN)/python -m tools.derivation

wheel: setup ## build the source distribution, and from it the wheel, into dist/
	$(UV) build --quiet --clear --no-build-isolation --python $(BIN)/python

lock: $(UV) ## compile requirements/*.txt from pyproject.toml
	PATH="$(dir $(abspath $(UV))):$$PATH" $(PYTHON) requirements/lock.py

# Make .venv from one lock, with the laneway command.
define install
	$(UV) venv --quiet --clear --python $(PYTHON) .venv
	$(UV) pip sync --quiet --python $(BIN)/python --require-hashes $(1)
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
endef

$(RUNNABLE): requirements/run.txt pyproject.toml | $(UV)
	$(call install,requirements/run.txt)
	touch $@

$(CURRENT): requirements/dev.txt pyproject.toml | $(UV)
	$(call install,requirements/dev.txt)
	touch $(RUNNABLE) $@

.venv-tools/bin/uv: requirements/tools.txt
	$(PYTHON) -m venv --clear .venv-tools
	.venv-tools/bin/python -m pip install --quiet --disable-pip-version-check \
		--require-hashes --requirement requirements/tools.txt
	touch $@
