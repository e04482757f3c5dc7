# Everything that one does with a checkout. POSIX sh only; `make help` lists the targets.

.DEFAULT_GOAL := help
.PHONY: help run test lint check format migrate schema docs bench chaos image coverage lock

PYTHON ?= python3
# How many run the tests side by side, each with servers of its own.
TEST_JOBS ?= 3
BIN := .venv/bin
INSTALL := PYTHON="$(PYTHON)" requirements/install.sh
RUN_LOCKS := requirements/run.txt requirements/embedded.txt requirements/build.txt
LOCK := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock"

help: ## what there is
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | while IFS="$$(printf '\t')" \
		read -r target text; do printf '  make %-9s %s\n' "$$target" "$$text"; done

run: .venv/.run ## everything on this machine, with a sample workspace (Ctrl-C ends it)
	@$(BIN)/duebook dev

test: .venv/.dev ## the whole suite, with real PostgreSQL, RabbitMQ and Redis
	$(BIN)/pytest -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder

lint: .venv/.dev ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

check: lint ## lint, layers, unit tests: no services
	$(BIN)/pytest -q tests/unit tests/architecture

format: .venv/.dev ## write the code in the house's form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

migrate: .venv/.run ## bring the database of DATABASE_URL up to this release
	$(BIN)/duebook migrate

schema: .venv/.dev ## write docs/schema.sql from the migrations
	$(BIN)/python -m tests.servers.schema docs/schema.sql

docs: .venv/.dev ## write what pages list from the code
	$(BIN)/python -m tests.pages

bench: .venv/.bench ## one table for each question of benchmarks/
	@for script in benchmarks/[a-z]*.py; do \
		name=$$(basename "$$script" .py); \
		echo "== $$name"; $(BIN)/python -m "benchmarks.$$name" || exit 1; \
	done

chaos: .venv/.dev ## an installation under faults, 10 minutes (CHAOS="--seed 7 --minutes 3")
	@$(BIN)/python -m tests.chaos $(CHAOS)

image: ## the container image duebook:dev (needs Docker)
	docker build -f deploy/Dockerfile -t duebook:dev .

coverage: .venv/.dev ## the whole suite, with the lines that no test reached
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage combine -q
	$(BIN)/coverage report --skip-covered --show-missing

lock: ## write requirements/*.txt anew (needs uv in the environment)
	$(LOCK) pyproject.toml -o requirements/run.txt
	$(LOCK) -c requirements/run.txt requirements/embedded.in -o requirements/embedded.txt
	$(LOCK) -c requirements/run.txt requirements/build.in -o requirements/build.txt
	$(LOCK) -c requirements/run.txt requirements/otel.in -o requirements/otel.txt
	$(LOCK) -c requirements/run.txt -c requirements/embedded.txt -c requirements/build.txt \
		-c requirements/otel.txt requirements/dev.in -o requirements/dev.txt
	$(LOCK) -c requirements/run.txt requirements/bench.in -o requirements/bench.txt
	$(LOCK) --no-deps requirements/helm.in -o requirements/helm.txt

.venv/.run: $(RUN_LOCKS) pyproject.toml requirements/install.sh
	$(INSTALL) run embedded build
	@touch $@

.venv/.dev: $(RUN_LOCKS) requirements/otel.txt requirements/dev.txt pyproject.toml \
		requirements/install.sh
	$(INSTALL) run embedded build otel dev
	@touch $@ .venv/.run

.venv/.bench: .venv/.dev requirements/bench.txt
	$(INSTALL) run embedded build otel dev bench
	@touch $@
