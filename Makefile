# Every target that needs the environment makes it first. `make setup` alone makes it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup demo docs pictures test test-floor coverage test-slow test-peers test-browser test-slurm test-install mutants fuzz bench bench-peers gpu \
	lint audit format clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

# The main job on the built-in language pair; a new folder each time, since nothing is ever written over.
demo: $(READY)
	$(BIN)/posnmt demo --out demo/$$(date +%Y-%m-%d-%H%M%S)

# The pages as a site in build/site, after their generated parts are filled. Fails on a broken link or anchor, and if a page
# would load anything from the network.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs]"
	$(BIN)/python docs/scripts/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# The screenshots of the pages in docs/pictures, in Chromium (apt-get install chromium, or the one that CHROMIUM names), from
# a workspace in build/workspace that seven minutes of training build. On an idle machine: a picture shows the speed.
pictures: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,browser,serve]"
	$(BIN)/python docs/scripts/screenshots.py

# A process a core, each with one thread, and a file of tests at a time; tests that need more threads start them. What needs
# other programs has targets of its own. Compiled modules are kept: tests start many processes that import them.
TEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -n auto
FAST := -m "not slow" -rs --dist loadfile --no-loadscope-reorder --ignore tests/peers --ignore tests/browser
test: $(READY)
	$(TEST) $(FAST)

# The same tests with the lowest PyTorch and NumPy that pyproject.toml admits, or with others: make test-floor TORCH=2.14.1
# NUMPY=2.4.6. Where PyPI's build of PyTorch is one for GPUs, that takes five GB in build/. pip chooses the packages that
# depend on PyTorch's version; constraints.txt pins the others.
TORCH ?= 2.8.0
NUMPY ?= 2.0.2
FLOOR := build/torch-$(TORCH)
CHOSEN := torch|numpy|triton|sympy|networkx|fsspec|setuptools
test-floor:
	$(PYTHON) -m venv $(FLOOR)
	grep -vE '^($(CHOSEN))==' constraints.txt > $(FLOOR)/constraints.txt
	$(FLOOR)/bin/python -m pip install --quiet --disable-pip-version-check -c $(FLOOR)/constraints.txt \
		torch==$(TORCH) numpy==$(NUMPY) -e ".[dev]"
	$(MAKE) test BIN=$(FLOOR)/bin READY=

# How much of the package the same tests run, in percent of its lines, with the files that lack some. In half an hour or more.
coverage: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,coverage]"
	$(TEST) $(FAST) --cov=posnmt --cov=posnmt_position --cov-report=term:skip-covered

# Whole studies, the whole demo, compiling; then minutes of training on real corpora from ../shared/data, with all cores
# (skipped where the corpora are absent, as on CI).
test-slow: $(READY)
	$(TEST) -m slow --ignore tests/slow/test_real_corpora.py --durations=20
	$(BIN)/python -m pytest -m slow tests/slow/test_real_corpora.py -rs

# Schemes against other people's implementations, with copied weights, and exports for Hugging Face's Transformers. OpenNMT-py is installed alone: it asks for an old
# PyTorch, and its attention runs with a new one.
test-peers: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,peers]"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps OpenNMT-py==3.5.1
	$(BIN)/python -m pytest tests/peers tests/deploy/test_huggingface*.py position/tests/test_readme.py -rs

# The report in a real browser: Debian's chromium (apt-get install chromium), or the one that CHROMIUM names. Pictures of
# the page stay in build/browser.
test-browser: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,browser]"
	$(BIN)/python -m pytest tests/browser -rs

# Jobs on a real Slurm of this machine, started for the tests and stopped after them; Debian's packages are installed where
# they are missing, which needs root.
test-slurm: $(READY)
	$(BIN)/python tests/slurm/cluster.py install
	$(BIN)/python tests/slurm/cluster.py --nodes 2 run $(BIN)/python -m pytest tests/slurm -rs

# The sdist and the wheel in dist/: built, checked, and the wheel installed and used from another folder. ALSO names other
# Pythons to do the same with, but for PyTorch: make test-install ALSO="python3.12 python3.13". A publisher gives URL, the
# address of the repository: README's links then work on PyPI, and the project has its addresses there.
test-install: $(READY)
	$(BIN)/python -m tests.install.install $(if $(URL),--url $(URL)) --also $(ALSO)

# Small faults put into a copy of the package one at a time: some test must notice each. About an hour.
mutants: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/mutants.py

# Damaged files for every parser, and odd commands: each succeeds or gives one clear line. Hours: FUZZ_INPUTS and
# FUZZ_COMMANDS take fewer, FUZZ_SEED other ones. What is done is in the log, and is left out when a search goes on.
FUZZ_INPUTS ?= 1000000
FUZZ_COMMANDS ?= 20000
FUZZ_SEED ?= 1
fuzz: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.fuzz parsers --count $(FUZZ_INPUTS) --seed $(FUZZ_SEED) --log build/fuzz.jsonl
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz.fuzz commands --count $(FUZZ_COMMANDS) --seed $(FUZZ_SEED) --log build/fuzz.jsonl
	$(BIN)/python -m tests.fuzz.fuzz counts --log build/fuzz.jsonl

# Speed of every system against the sinusoidal one, as ratios in one run; on an idle machine.
bench: $(READY)
	$(BIN)/python benchmarks/schemes.py

# Training speed against other toolkits, in turn: each is installed, pinned, in an environment of its own. On an idle
# machine, some two hours; benchmarks/peers/README.md says how to take fewer.
bench-peers: $(READY)
	$(BIN)/python benchmarks/peers/train_speed.py --corpus ../shared/data/enja_tanaka_small --systems transformer relative \
		--environments build/peers --out build/peers/$$(date +%Y-%m-%d-%H%M%S).json

# What works on an NVIDIA GPU and how fast, in stages and in less than ten minutes, with the Python that is there: nothing is installed.
# Packages that it lacks may be in a folder PACKAGES (benchmarks/gpu_pack.py), and compiled kernels in a file CACHES
# (benchmarks/gpu_kernels.py).
GPU_PYTHON ?= python3
gpu:
	mkdir -p build
	PYTHONPATH=$(CURDIR):$(CURDIR)/position:$(PACKAGES) $(GPU_PYTHON) benchmarks/gpu.py --out build/gpu.json $(if $(CACHES),--caches $(CACHES))

lint: $(READY)
	$(BIN)/ruff format --check posnmt position tests benchmarks docs notebooks
	$(BIN)/ruff check posnmt position tests benchmarks docs notebooks
	$(BIN)/codespell
	$(BIN)/mypy

# The pinned packages in PyPI's list of advisories. It needs the network, and fails where a package cannot be looked up.
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	build/audit/bin/python tests/audit/audit.py build/audit/bin/pip-audit constraints.txt

format: $(READY)
	$(BIN)/ruff format posnmt position tests benchmarks docs notebooks
	$(BIN)/ruff check --fix posnmt position tests benchmarks docs notebooks

clean:
	rm -rf .venv build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
