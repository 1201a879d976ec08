# kbsite: `make run` starts it, `make test` tests it. Everything lives in .venv and DATA_DIR.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
XDIST ?= 3
# Tests write many small files and wait for each to be on disk: in memory that is quicker, where there is room.
ROOMY_SHM := $(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 2000000 {print "/dev/shm"}')
export HOST PORT

.PHONY: install install-dev install-production run test check bench e2e services-test milvus-test bge-m3-test lock schema messages env-example format help

help: ## what can be made
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | sort

$(VENV)/.runtime: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("kbsite needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another one: make PYTHON=python3.12 …") if sys.version_info < (3, 11) else 0'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing kbsite into $(VENV) (about a minute the first time) …"
	@$(PIP) --only-binary :all: --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.runtime
	@echo "Installing the test tools into $(VENV) …"
	@$(PIP) --only-binary :all: --require-hashes -r requirements/dev.lock
	@touch $@

# mysqlclient alone has no wheel and is compiled: default-libmysqlclient-dev, pkg-config, gcc.
$(VENV)/.production: requirements/production.lock $(VENV)/.runtime
	@echo "Installing what a production site needs into $(VENV) …"
	@$(PIP) --only-binary :all: --no-binary mysqlclient --require-hashes -r requirements/production.lock
	@touch $@

install: $(VENV)/.runtime ## the environment in .venv

install-dev: $(VENV)/.dev ## the environment with the test tools

install-production: $(VENV)/.production ## the environment of a site on MySQL, Redis, Milvus and Celery

run: $(VENV)/.runtime ## serve on http://HOST:PORT (127.0.0.1:8000)
	@$(BIN)/python manage.py bootstrap
	@exec $(BIN)/python -m kbsite

test: $(VENV)/.dev ## everything that needs no outside service
	@TMPDIR=$(or $(ROOMY_SHM),$(TMPDIR),/tmp) $(BIN)/python -m pytest -n $(XDIST) --dist loadgroup tests --ignore=tests/e2e --ignore=tests/services

check: $(VENV)/.dev ## lint, types, import order, migrations, schema, deploy settings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run
	BEHIND_PROXY=1 SECRET_KEY=$$(head -c 40 /dev/urandom | base64) $(BIN)/python manage.py check --deploy --fail-level WARNING
	@mkdir -p build
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file build/openapi.yaml && diff -u docs/openapi.yaml build/openapi.yaml

bench: $(VENV)/.dev ## figures beside their targets; PART=levels for one of keyword_index codes wild retrieval levels enrichment hot_reload reconcile reliability site
	$(BIN)/python -m bench $(PART)

e2e: $(VENV)/.dev ## the pages in a real Chromium
	$(BIN)/python -m pytest tests/e2e -p no:randomly -rs

services-test: $(VENV)/.dev ## the suite on MariaDB; several processes on MariaDB, Redis, RabbitMQ: where they answer
	@TMPDIR=$(or $(ROOMY_SHM),$(TMPDIR),/tmp) XDIST=$(XDIST) $(BIN)/python -m tests.services

# A second environment: torch and what FlagEmbedding needs are 2 GB, and pin older versions than the site would take.
# Torch comes first, in its CPU build where the index for it can be reached: the other one is several GB.
BGE_VENV := .venv-bge-m3
BGE_PIP := $(BGE_VENV)/bin/python -m pip install --quiet --disable-pip-version-check
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

$(BGE_VENV)/.installed: requirements/bge-m3.txt requirements.txt requirements/dev.txt
	@test -x $(BGE_VENV)/bin/python || $(PYTHON) -m venv $(BGE_VENV)
	@echo "Installing FlagEmbedding into $(BGE_VENV) (some minutes and 2 GB the first time) …"
	@if curl -fsIL -m 5 -o /dev/null $(TORCH_INDEX)/torch/ 2>/dev/null; then cpu="--extra-index-url $(TORCH_INDEX)"; fi; \
		$(BGE_PIP) $$cpu "$$(grep '^torch==' requirements/bge-m3.txt)"
	@$(BGE_PIP) -r requirements/bge-m3.txt $$(grep -E '^pytest(-django)?==' requirements/dev.txt)
	@touch $@

bge-m3-test: $(BGE_VENV)/.installed ## BGE-M3 through FlagEmbedding, on a tiny checkpoint that the test makes
	HF_HUB_OFFLINE=1 $(BGE_VENV)/bin/python -m pytest tests/bge_m3 -rs

# The server as a Python package: no Docker. An old one (no sparse vectors), and the only one that there is.
MILVUS_VENV := .venv-milvus
MILVUS_SERVER := milvus==2.3.5

$(MILVUS_VENV)/.installed:
	@test -x $(MILVUS_VENV)/bin/python || $(PYTHON) -m venv $(MILVUS_VENV)
	@echo "Installing $(MILVUS_SERVER) into $(MILVUS_VENV) …"
	@$(MILVUS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: $(MILVUS_SERVER)
	@touch $@

milvus-test: $(VENV)/.dev $(MILVUS_VENV)/.installed ## the vector store on a real Milvus server, which it starts and stops
	@$(BIN)/python -m tests.services.milvus $(MILVUS_VENV)/bin/milvus-server

lock: ## requirements.lock, requirements/dev.lock and requirements/production.lock anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header requirements.txt -o requirements.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header requirements/dev.txt -o requirements/dev.lock
	$(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header requirements/production.txt -c requirements.lock -o requirements/production.lock

schema: $(VENV)/.dev ## docs/openapi.yaml anew
	$(BIN)/python manage.py spectacular --validate --fail-on-warn --file docs/openapi.yaml

env-example: $(VENV)/.runtime ## .env.example anew
	$(BIN)/python -m kbsite.variables

messages: $(VENV)/.dev ## compiled translations anew
	$(BIN)/pybabel -q compile -d locale -D django

format: $(VENV)/.dev ## the code's form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
