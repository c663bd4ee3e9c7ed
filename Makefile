# Every target sets up .venv by itself. A CPU-only user can name PyTorch's CPU index:
#   make grade TORCH_INDEX=https://download.pytorch.org/whl/cpu
SUBMISSION ?= assignment
TORCH_INDEX ?=
PYTHON ?= python3
ARGS ?=
EXTRAS :=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# torch with CUDA installs its own triton; the CPU build gets this one. The second is the last version
# for Python 3.10.
TRITON := 3.9.0
TRITON_310 := 3.8.0
INDEX := $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX))

.PHONY: setup grade check clean
.DEFAULT_GOAL := grade

grade: $(READY)  ## grade SUBMISSION (default: assignment) and show the score
	@$(BIN)/grader grade $(SUBMISSION) $(ARGS)

check: $(READY)  ## the tests students run, over SUBMISSION; ARGS='-k rmsnorm'
	@$(BIN)/python -m pytest tests/test_assignment.py --submission=$(SUBMISSION) $(ARGS)

setup: $(READY)  ## set up .venv, as every other target does first

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache .mypy_cache *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) (once; a few minutes on a slow connection) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed, this is " + sys.version.split()[0]) if sys.version_info < (3, 10) else None'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) $(INDEX) torch
	@$(BIN)/python -c 'import importlib.util as u, sys; sys.exit(u.find_spec("triton") is None)' || $(PIP) "triton==$(TRITON); python_version > '3.10'" "triton==$(TRITON_310); python_version <= '3.10'"
	@$(PIP) --editable '.$(EXTRAS)'
	@$(BIN)/python -m compileall -q grader  # as pip does with packages: Python may be told to write none
	@touch $@

# BEGIN STAFF
EXTRAS := [dev]
# Processes of tests on two cores: some tests wait until a time limit ends.
JOBS ?= 3
SECONDS ?= 60
.PHONY: test courses stubs handout figures site release bench bench-reference gpu lecture outputs attacks fuzz batch class lint

# Python may keep byte code whatever the environment says: that of tests, too, whose assertions each
# process would rewrite in every run.
test: export PYTHONDONTWRITEBYTECODE :=
test: $(READY)  ## the grader's own tests
	@$(BIN)/python -m compileall -q grader  # each process of a test, confined ones too, reads it
	$(BIN)/python -m pytest tests/grader tests/reference tests/docs tests/benchmarks tests/test_kernels2.py -p no:logging -n $(JOBS) --dist loadfile $(ARGS)

courses: COURSES ?= . $(patsubst %/course.yaml,%,$(wildcard courses/*/course.yaml))
courses: $(READY)  ## every exercise of the courses here, as an author checks them; ARGS=--quick
	@for course in $(COURSES); do $(BIN)/grader author check --course $$course $(ARGS) || exit 1; done

stubs: $(READY)  ## write assignment/ from reference/
	@$(BIN)/grader stubs $(ARGS)

handout: $(READY)  ## bring the tables of handout.md up to date with the specs; ARGS=--check only asks
	@$(BIN)/grader handout $(ARGS)

figures: $(READY)  ## draw docs/figures/, which handout and slides show; ARGS=--check only asks
	@$(BIN)/python docs/make_figures.py $(ARGS)

site: $(READY)  ## the handout as a static site, into results/site; ARGS='--course course.yaml'
	@$(PIP) --editable '.[dev,site]'
	@rm -rf results/site && mkdir -p results
	@$(BIN)/grader site --out results/site $(ARGS)

release: OUT ?= release.zip
release: $(READY)  ## the students' release, into OUT: a new folder or a .zip; ARGS='--only silu'
	@$(BIN)/grader release --out $(OUT) $(ARGS)

bench: $(READY)  ## the parts of grading's time
	@$(BIN)/python benchmarks/grading.py $(ARGS)

bench-reference: OUT ?= results/reference
bench-reference: $(READY)  ## the reference kernels beside their peers on this GPU; ARGS='--only gemm'
	@$(BIN)/python benchmarks/reference_kernels.py --out $(OUT) $(ARGS)

gpu: $(READY)  ## everything that needs a GPU, in one go: a table; ARGS='clock reference'
	@$(BIN)/python benchmarks/gpu.py $(ARGS)

lecture: OUT ?= results/lecture
lecture: $(READY)  ## the lecture's comparisons on this GPU, for the handout; ARGS='--only matmul'
	@$(BIN)/python -m lecture --out $(OUT) $(ARGS)

outputs: $(READY)  ## what programs of the handout print, put below them; ARGS=--gpu on a GPU, else --here
	@$(BIN)/python -m lecture.outputs $(or $(ARGS),--here)

attacks: $(READY)  ## every attack of tests/submissions/attacks against every layer: a table
	@$(BIN)/python benchmarks/attacks.py $(ARGS)

fuzz: $(READY)  ## coverage-guided fuzzing of the readers of untrusted bytes, SECONDS for each
	@$(PIP) --editable '.[dev,fuzz]'
	@for target in protocol spec policy evidence plan ttir; do \
	  $(BIN)/python -m tests.fuzz $$target -max_total_time=$(SECONDS) -timeout=20 $(ARGS) || exit 1; done

batch: $(READY)  ## grade a folder of submissions: make batch SOURCE=submissions OUT=results
	@$(BIN)/grader batch $(SOURCE) --out $(OUT) $(ARGS)

class: N ?= 300
class: OUT ?= class
class: LAYOUT ?= folders
class: SEED ?= 1
class: $(READY)  ## a synthetic class of N students: make class N=300 OUT=class LAYOUT=gradescope
	@$(BIN)/python -m tests.support.synthetic_class $(OUT) --n $(N) --layout $(LAYOUT) --seed $(SEED) $(ARGS)

# vermin takes bytes.decode and a tensor's long for what Python 2 had.
lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python tests/house.py
	$(BIN)/vermin --quiet --no-tips --violations --exclude str.decode --exclude long --exclude-regex attacks/bases/ -t=3.10- grader lecture reference assignment tests benchmarks
# END STAFF
