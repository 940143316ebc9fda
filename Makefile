# ARGS is handed on to the program that a target starts: make run ARGS="--http-port 14318", make test ARGS=tests/sli
ARGS ?=
# Only `make lock` needs uv.
UV ?= uv
LOCK = $(UV) pip compile --quiet pyproject.toml --group build --universal --python-version 3.11 \
	--generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test bench fuzz soak lint lock runtime-environment dev-environment

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-6s %s\n", $$1, $$2 }' Makefile

run: runtime-environment ## start the service on an embedded store, on loopback (ARGS: for toolgauge serve)
	@.venv/bin/toolgauge serve $(ARGS)

test: lint ## lint, then run all tests (ARGS: for pytest)
	@sh scripts/system-packages.sh
	.venv/bin/python -m pytest $(ARGS)

bench: runtime-environment ## run the benchmarks (ARGS: for them)
	.venv/bin/python -m bench $(ARGS)

fuzz: dev-environment ## feed damaged and random input for ten minutes (FUZZ_SECONDS for each of 11 kinds)
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} FUZZ_SEED=$${FUZZ_SEED:-$$(date +%s)} .venv/bin/python -m pytest -n0 --timeout=0 tests/fuzz $(ARGS)

soak: runtime-environment ## run the service for 20 minutes at 80 % of its full rate (ARGS: --minutes 5)
	.venv/bin/python -m bench.soak $(ARGS)

lint: dev-environment ## check style, types and the import rules
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

lock: ## renew the lock files after a change of pyproject.toml (ARGS=--upgrade: newest versions); needs uv
	$(LOCK) $(ARGS) --output-file requirements.lock
	$(LOCK) $(ARGS) --group dev --constraint requirements.lock --output-file requirements-dev.lock

runtime-environment:
	@sh scripts/environment.sh runtime

dev-environment:
	@sh scripts/environment.sh dev
