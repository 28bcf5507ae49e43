# Everything a person does with this checkout. Targets set up what they need in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := games zerofleet inference_server selfplay_worker trainer gatekeeper
PROTO := $(wildcard proto/zerofleet/wire/*.proto)
RUN_ARGS ?= connect_four --preset laptop

.PHONY: venv run check test test-all format proto clean

venv: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

run: venv
	$(BIN)/zerofleet run $(RUN_ARGS)

proto: venv
	$(BIN)/python -m grpc_tools.protoc -Iproto --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
		--python_out=. --pyi_out=. --grpc_python_out=. --mypy_grpc_out=. $(PROTO)

check: venv
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory proto
	git diff --exit-code -- zerofleet/wire
	$(BIN)/yamllint --strict .

test: venv
	$(BIN)/pytest -n auto --dist worksteal

format: venv
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
