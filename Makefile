# Everything works on a fresh clone with Python 3.11 or newer and make:
# each target builds `.venv` first and installs what it needs into it.
# The first that runs: a version manager has a `python3.11` on the PATH that only says that this version isn't selected.
PYTHON ?= $(shell for python in python3.11 python3.12 python3.13 python3; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && command -v $$python && break; done)
VENV   := .venv
BIN    := $(VENV)/bin
# The distributions: the contract; the rules, the client and guarded calls (which need it); the tools, and the service.
PACKAGES := packages/contract packages/catalog packages/client packages/outbound packages/tools packages/mercato
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip --quiet
# More than there are processors: a test often waits for a process, a webhook or a lease. Each worker more costs its collection
# and services of its own.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) \* 2 + 2)

# With RERUNS=1, as in CI, a test that failed runs once more, and is shown with its traceback.
RUN_AGAIN := $(if $(RERUNS),--reruns $(RERUNS) --rerun-show-tracebacks)

.DEFAULT_GOAL := help
.PHONY: help run demo test test-python test-long prove test-clients test-browser test-ha test-agents audit lock wheels sbom check format bench bench-peers bench-large soak start-here pictures docs clean

help: ## what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# One lock holds every version and its hashes: what is installed is a part of it. It names no index, so pip uses the one
# that this machine is set up for.
LOCKED := $(PIP) install --require-hashes --constraint requirements.lock

# An interrupt while it is made leaves a Python without pip: made once more, it is whole. Python's own pip is older than the
# one that takes hashes from constraints, which is therefore installed first.
$(VENV)/.run: $(PACKAGES:=/pyproject.toml) pyproject.toml requirements.lock
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "Mercato needs Python 3.11 or newer: name one, as in make PYTHON=/opt/python3.12/bin/python3 run" >&2; exit 1; }
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	sed -n '/^pip==/,/[^\\]$$/p' requirements.lock > $(VENV)/pip.txt
	$(PIP) install --require-hashes --requirement $(VENV)/pip.txt
	$(LOCKED) --group build
	@# The command of an earlier version would be removed with it, after the tools have installed theirs.
	test ! -e $(BIN)/mercato || $(PIP) uninstall --yes mercato
	$(PIP) install --no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES))
	$(LOCKED) mercato
	$(BIN)/python -m compileall -q $(PACKAGES:=/src)
	touch $@

# A stamp for each group: nobody else needs Sphinx, Playwright, Patroni or a client for agents.
$(VENV)/.dev $(VENV)/.docs $(VENV)/.browser $(VENV)/.ha $(VENV)/.agents $(VENV)/.peers: $(VENV)/.%: $(VENV)/.run
	$(LOCKED) --group $*
	touch $@

run: $(VENV)/.run ## serve on http://127.0.0.1:8000 for development, with a database in ./data
	exec $(BIN)/mercato serve --dev

demo: $(VENV)/.run ## the whole story in one process, in under a minute
	$(BIN)/mercato demo

# The documents have been tried by `check`, which CI runs before this; the browser has a target of its own.
test: $(VENV)/.dev ## the tests, on SQLite and on PostgreSQL; ARGS="tests/orders" for some of them
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not long" -q $(or $(ARGS),--ignore=tests/docs --ignore=tests/browser) $(RUN_AGAIN)

# What reads JSON, prints help and tracebacks, or calls other servers: where versions of Python have differed. Those that explore
# what our own rules do with thousands of values are left out: they take long, and no version would change it.
QUICK_TESTS := tests/wire tests/client tests/carts/test_rules.py tests/catalog tests/orders tests/outbound/test_call.py \
  tests/outbound/test_headers.py tests/outbound/test_pull.py tests/console/test_passkeys.py tests/test_telemetry.py tests/test_signing.py \
  tests/test_values.py tests/api/test_orders.py tests/webhooks/test_store_calls.py \
  --ignore=tests/orders/test_request_meaning.py $(addprefix --ignore=tests/catalog/test_,catalog_random.py catalog_hostile.py schema.py)

test-python: $(VENV)/.dev ## the tests that another Python may fail; PYTHON=python3.13 VENV=build/python-3.13
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not long" -q --database sqlite $(QUICK_TESTS) $(RUN_AGAIN)

# Each takes long, and they take it differently: a worker that has finished takes what others haven't begun.
test-long: $(VENV)/.dev ## every kill, restart, mutant and bound: the proofs that take minutes
	MERCATO_TEST_EXAMPLES=all $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "long or hypothesis" -q $(ARGS) $(RUN_AGAIN)

TOOLS := tests/clients/typescript
PACKAGE := packages/typescript
RULES := packages/catalog/typescript

%/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@command -v npm >/dev/null || { echo "make test-clients needs Node.js 20.19 or newer, with npm: there is none on the PATH" >&2; exit 1; }
	npm --prefix $* ci --no-audit --no-fund --silent
	touch $@

$(PACKAGE)/dist/index.js: $(PACKAGE)/node_modules/.package-lock.json $(PACKAGE)/tsconfig.json $(wildcard $(PACKAGE)/src/*.ts)
	npm --prefix $(PACKAGE) run --silent build

# The package's tests, and those of what the documents and the console say about it.
test-clients: $(VENV)/.dev $(TOOLS)/node_modules/.package-lock.json $(PACKAGE)/dist/index.js $(RULES)/node_modules/.package-lock.json ## the TypeScript packages, and clients generated from /openapi.json (needs Node.js)
	MERCATO_TEST_CLIENTS=1 $(BIN)/python -m pytest -n 0 -q tests/clients tests/docs/test_receivers.py \
	  tests/console/test_playground.py::test_a_request_is_shown_as_a_program_that_runs

test-browser: $(VENV)/.dev $(VENV)/.browser ## the console in a browser (needs Chromium: apt-get install chromium-headless-shell)
	MERCATO_TEST_BROWSER=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q $(if $(QUICK),-m 'not long') tests/browser $(RUN_AGAIN)

test-ha: $(VENV)/.dev ## kill the servers of a PostgreSQL cluster under trade (needs etcd: apt-get install etcd-server)
	@if ! command -v etcd >/dev/null; then \
	  echo "make test-ha is skipped: there is no etcd on the PATH. Install it: apt-get install etcd-server"; \
	elif ! $(MAKE) --no-print-directory $(VENV)/.ha; then \
	  echo "make test-ha is skipped: the packages of Patroni couldn't be installed"; \
	else MERCATO_TEST_HA=1 $(BIN)/python -m pytest -n 0 -q -s tests/ha; fi

AGENTS := tests/agents/conformance
# The door's other tests need neither: `make test` has them.
AGENTS_TESTS := tests/agents/test_conformance.py tests/agents/test_sdk.py

test-agents: $(VENV)/.dev ## the agents' door: the Model Context Protocol's conformance tool and client (needs npm)
	@if ! command -v npm >/dev/null || ! npm --prefix $(AGENTS) ci --ignore-scripts --no-audit --no-fund --silent; then \
	  echo "make test-agents is skipped: the conformance tool couldn't be installed. It needs npm, and a registry that has it"; \
	elif ! $(MAKE) --no-print-directory $(VENV)/.agents; then \
	  echo "make test-agents is skipped: the package mcp couldn't be installed"; \
	else MERCATO_TEST_AGENTS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -q $(AGENTS_TESTS); fi

prove: $(VENV)/.dev ## kill processes at random and compare the records; ARGS="--kills 1000 --state prove.json"
	$(BIN)/python -m tests.prove $(ARGS)

audit: $(VENV)/.dev ## known vulnerabilities of the packages that serve
	$(BIN)/python -m tests.audit

# Versions that are locked stay, except those in UPGRADE="name …". Hashes are those of every file that PyPI has.
# 3.11.5 is the oldest that Sphinx's theme takes.
lock: $(VENV)/.dev ## renew requirements.lock after a change of what is required; UPGRADE="httpx ruff" raises these
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11.5 --generate-hashes --no-header --no-annotate \
	  --all-extras packages/mercato/pyproject.toml $(foreach group,build dev docs browser ha agents peers,--group pyproject.toml:$(group)) \
	  $(foreach package,$(PACKAGES),--no-emit-package $(patsubst mercato-mercato,mercato,mercato-$(notdir $(package)))) \
	  $(addprefix --upgrade-package ,$(UPGRADE)) --output-file requirements.lock

# The distributions are built in order; what they need is downloaded in the versions of the lock, and in the oldest that the
# client may be installed with, so that the test can install each in an empty environment without a network.
wheels: $(VENV)/.dev $(PACKAGE)/node_modules/.package-lock.json $(RULES)/node_modules/.package-lock.json ## every wheel, source archive and npm tarball in dist/, each tried alone
	rm -rf dist
	for package in $(PACKAGES); do (cd $$package && $(CURDIR)/$(BIN)/python -m hatchling build -d $(CURDIR)/dist) || exit 1; done
	npm pack --silent --pack-destination dist ./$(PACKAGE)
	npm pack --silent --pack-destination dist ./$(RULES)
	$(PIP) download --no-deps --require-hashes --constraint requirements.lock --dest build/wheelhouse \
	  $$($(BIN)/python -c 'from tests.audit import ROOT, runtime_packages; print(*runtime_packages(ROOT))')
	$(BIN)/uv pip compile --quiet --resolution lowest-direct --generate-hashes --no-header --no-annotate --all-extras \
	  --no-emit-package mercato-contract packages/contract/pyproject.toml packages/client/pyproject.toml --output-file build/oldest.txt
	$(PIP) download --no-deps --require-hashes --requirement build/oldest.txt --dest build/oldest
	MERCATO_TEST_WHEELS=1 $(BIN)/python -m pytest -n 0 -q tests/packages

sbom: $(VENV)/.dev ## what a release is made of, as CycloneDX, in dist/
	$(BIN)/python -m tests.sbom dist

check: $(VENV)/.dev ## format, lint, types, floors, documents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/docs $(RUN_AGAIN)

format: $(VENV)/.dev ## let the tools rewrite what they can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.dev ## the benchmarks: ratios against a floor measured in the same run
	$(BIN)/python -m benchmarks

bench-peers: $(VENV)/.dev $(VENV)/.peers ## the same carts and orders on FastAPI and on Vendure (which needs Node.js); takes six minutes
	$(BIN)/python -m benchmarks.peers $(ARGS)

bench-large: $(VENV)/.dev ## discovery over a million stores on both databases; takes half an hour
	$(BIN)/python -m benchmarks discovery_large

soak: $(VENV)/.dev ## ten minutes of everything: what grows? ARGS="--database postgresql"
	$(BIN)/python -m benchmarks.soak $(ARGS)

# With nothing installed: the clone makes what the page asks for.
start-here: ## follow docs/start-here.md in a clean clone of what is committed, and say how long it takes
	$(PYTHON) -m tests.docs.follow_start_here

pictures: $(TOOLS)/node_modules/.package-lock.json ## draw docs/pictures again after a change of their text (needs Node.js)
	node $(TOOLS)/pictures.mjs docs/pictures

docs: $(VENV)/.docs ## the documents as a site in ./site, to be read without a network
	$(BIN)/python -m sphinx -q -W --keep-going -E -b html -d build/doctrees docs site
	$(BIN)/python docs/offline.py site

clean: ## remove what the targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist site \
	  $(TOOLS)/node_modules $(PACKAGE)/node_modules $(PACKAGE)/dist $(PACKAGE)/build $(RULES)/node_modules $(RULES)/dist
