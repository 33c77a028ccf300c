# `make` lists the targets. The work is done by scripts/, each of which can be run by itself.
# What a caller's Python needs is none of ours.
unexport PYTHONPATH PYTHONHOME

.PHONY: help run test lint format image lock clean

help:  ## show this
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

run:  ## set up all that is needed, and serve on 127.0.0.1:8080
	@scripts/run

test:  ## set up every engine, and run the linters and all tests (ARGS="..." for pytest)
	@scripts/test $(ARGS)

lint:  ## run the linters alone
	@scripts/venv dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/mypy scripts
	.venv/bin/lint-imports
	.venv/bin/shellcheck $(shell grep --files-with-matches '^#!.*bash' scripts/* .ci/run)

format:  ## format the code
	@scripts/venv dev
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

image:  ## build the images airlock-sandbox and airlock-service
	@scripts/venv
	@.venv/bin/python scripts/image.py sandbox
	@.venv/bin/python scripts/image.py service

lock:  ## compile the lock files from pyproject.toml
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url pyproject.toml -o requirements.lock
	uv pip compile -q --universal --generate-hashes --no-header --no-emit-index-url pyproject.toml --group dev -o requirements-dev.lock

clean:  ## remove all that was made here
	rm -rf --one-file-system .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .schemathesis
