# Everything works on a fresh clone with Python 3.11 or newer and make:
# each target builds `.venv` first and installs what it needs into it.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
# The distributions: the contract, the client (which needs it), the service (which needs both).
PACKAGES := packages/contract packages/client packages/mercato
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip --quiet
# Two more than there are processors: many tests wait for a process, a webhook or a lease.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)

.DEFAULT_GOAL := help
.PHONY: help run demo test test-long prove test-clients test-browser test-ha audit lock wheels sbom check format bench bench-large soak start-here docs clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# An interrupt while it is made leaves a Python without pip: made once more, it is whole.
$(VENV)/.run: $(PACKAGES:=/pyproject.toml) requirements.lock
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Mercato needs Python 3.11 or newer: name one, as in make PYTHON=/opt/python3.12/bin/python3 run" >&2; exit 1; }
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes --requirement requirements.lock
	$(PIP) install --no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES))
	$(BIN)/python -m compileall -q $(PACKAGES:=/src)
	touch $@

$(VENV)/.dev: $(VENV)/.run requirements-dev.lock
	$(PIP) install --require-hashes --requirement requirements-dev.lock
	touch $@

run: $(VENV)/.run ## serve on http://127.0.0.1:8000 for development, with a database in ./data
	exec $(BIN)/mercato serve --dev

demo: $(VENV)/.run ## the whole story in one process, in under a minute
	$(BIN)/mercato demo

# The documents have been tried by `check`, which CI runs before this.
test: $(VENV)/.dev ## the tests, on SQLite and on PostgreSQL
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long" -q --ignore=tests/docs $(if $(RERUNS),--reruns $(RERUNS) -r R)

test-long: $(VENV)/.dev ## the proofs that take minutes
	$(BIN)/python -m pytest -n $(WORKERS) -m long -q

TOOLS := tests/clients/typescript
PACKAGE := packages/typescript

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@command -v npm >/dev/null || { echo "make test-clients needs Node.js 20.19 or newer, with npm: there is none on the PATH" >&2; exit 1; }
	npm --prefix $* ci --no-audit --no-fund --silent
	touch $@

$(PACKAGE)/dist/index.js: $(PACKAGE)/node_modules/.package-lock.json $(PACKAGE)/tsconfig.json $(wildcard $(PACKAGE)/src/*.ts)
	npm --prefix $(PACKAGE) run --silent build

# The package's tests, and those of what the documents and the console say about it.
test-clients: $(VENV)/.dev $(TOOLS)/node_modules/.package-lock.json $(PACKAGE)/dist/index.js ## the TypeScript client, and clients generated from /openapi.json (needs Node.js)
	MERCATO_TEST_CLIENTS=1 $(BIN)/python -m pytest -n 0 -q tests/clients tests/docs/test_receivers.py \
	  tests/console/test_playground.py::test_a_request_is_shown_as_a_program_that_runs

# A stamp of its own: nobody else needs Playwright.
$(VENV)/.browser: $(VENV)/.dev requirements-browser.lock
	$(PIP) install --require-hashes --requirement requirements-browser.lock
	touch $@

test-browser: $(VENV)/.browser ## the console in a browser (needs Chromium: apt-get install chromium)
	MERCATO_TEST_BROWSER=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q $(if $(QUICK),-m 'not long') tests/browser

# Patroni is a program beside the service, with an environment of its own.
$(VENV)/ha/.installed: $(VENV)/.dev requirements-ha.lock
	$(BIN)/python -m venv $(VENV)/ha
	$(PIP) --python $(VENV)/ha install --require-hashes --requirement requirements-ha.lock
	touch $@

test-ha: $(VENV)/.dev ## kill the servers of a PostgreSQL cluster under trade (needs etcd: apt-get install etcd-server)
	@if ! command -v etcd >/dev/null; then \
	  echo "make test-ha is skipped: there is no etcd on the PATH. Install it: apt-get install etcd-server"; \
	elif ! $(MAKE) --no-print-directory $(VENV)/ha/.installed; then \
	  echo "make test-ha is skipped: the packages of Patroni couldn't be installed"; \
	else MERCATO_TEST_HA=1 $(BIN)/python -m pytest -n 0 -q -s tests/ha; fi

prove: $(VENV)/.dev ## kill processes at random and compare the records; ARGS="--kills 1000 --state prove.json"
	$(BIN)/python -m tests.prove $(ARGS)

audit: $(VENV)/.dev ## known vulnerabilities of the packages that serve
	$(BIN)/python -m tests.audit

# The versions are those of constraints.txt; the hashes, those of every file of them that PyPI has.
# 3.11.5 is the oldest that Sphinx's theme takes.
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-header --no-annotate \
  --constraint constraints.txt --no-emit-package mercato-contract --no-emit-package mercato-client --output-file

lock: $(VENV)/.dev ## renew the hashes after a change of constraints.txt or of what is required
	$(LOCK) requirements.lock packages/mercato/pyproject.toml requirements-build.txt
	$(LOCK) requirements-dev.lock requirements-dev.txt requirements-clients.txt
	$(LOCK) requirements-docs.lock requirements-docs.txt
	$(LOCK) requirements-browser.lock requirements-browser.txt
	$(LOCK) requirements-ha.lock requirements-ha.txt
	$(LOCK) requirements-build.lock requirements-build.txt
	$(LOCK) requirements-image.lock --extra otel --extra redis --extra oidc packages/mercato/pyproject.toml

# The distributions are built in order; what they need is downloaded in the versions of the lock, so that the test can
# install each in an empty environment without a network.
wheels: $(VENV)/.dev $(PACKAGE)/node_modules/.package-lock.json ## every wheel, source archive and npm tarball in dist/, each tried alone
	rm -rf dist
	for package in $(PACKAGES); do (cd $$package && $(CURDIR)/$(BIN)/python -m hatchling build -d $(CURDIR)/dist) || exit 1; done
	npm pack --silent --pack-destination dist ./$(PACKAGE)
	$(PIP) download --no-deps --require-hashes --dest build/wheelhouse --requirement requirements.lock
	MERCATO_TEST_WHEELS=1 $(BIN)/python -m pytest -n 0 -q tests/packages

sbom: $(VENV)/.dev ## what a release is made of, as CycloneDX, in dist/
	$(BIN)/python -m tests.sbom dist

check: $(VENV)/.dev ## format, lint, types, floors, documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --dist loadfile tests/docs

format: $(VENV)/.dev ## let the tools rewrite what they can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## the benchmarks: ratios against a floor measured in the same run
	$(BIN)/python -m benchmarks

bench-large: $(VENV)/.dev ## discovery over a million stores on both databases; takes half an hour
	$(BIN)/python -m benchmarks discovery_large

soak: $(VENV)/.dev ## ten minutes of everything: what grows? ARGS="--database postgresql"
	$(BIN)/python -m benchmarks.soak $(ARGS)

# With nothing installed: the clone makes what the page asks for.
start-here: ## follow docs/start-here.md in a clean clone of what is committed, and say how long it takes
	$(PYTHON) -m tests.docs.follow_start_here

# A stamp of its own: nobody else needs Sphinx.
$(VENV)/.docs: $(VENV)/.run requirements-docs.lock
	$(PIP) install --require-hashes --requirement requirements-docs.lock
	touch $@

docs: $(VENV)/.docs ## the documents as a site in ./site, to be read without a network
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html -d build/doctrees docs site
	$(BIN)/python docs/offline.py site

clean: ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist site \
	  $(TOOLS)/node_modules $(PACKAGE)/node_modules $(PACKAGE)/dist $(PACKAGE)/build
