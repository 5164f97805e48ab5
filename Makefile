# The two commands of the README (make demo, make test), and what the people who build perdure run.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: packages demo test test-most test-cluster test-slow check soak soak-kills soak-searches bench dist clean

demo: $(STAMP)
	$(BIN)/perdure demo

# Most tests compute, those on a cluster wait: they run side by side.
test: $(STAMP) packages
	$(MAKE) -j2 test-most test-cluster

test-most: $(STAMP)
	$(BIN)/python -m pytest -n 2 -m "not soak and not slow" --ignore tests/cluster $(TESTS)

test-cluster: $(STAMP)
	$(BIN)/python -m pytest -m "not soak and not slow" tests/cluster

# What waits for minutes for a cluster's own clocks: several clusters at once. `.ci/run` runs it, too.
test-slow: $(STAMP) packages
	$(BIN)/python -m pytest -n 4 --dist loadfile -m slow tests/cluster tests/lsf

# Debian's packages for the kills at single system calls (strace), for file systems that clone
# (xfsprogs) and for a cluster (Slurm, Open MPI); where they cannot be had those tests are skipped, and counted
# so.
packages:
	@for pair in strace:strace mkfs.xfs:xfsprogs munged:munge slurmctld:slurm-wlm mpirun:openmpi-bin; do \
	  command -v $${pair%%:*} >/dev/null || [ "$$(id -u)" != 0 ] || apt-get install -y -q $${pair##*:} >/dev/null 2>&1 \
	  || echo "$${pair##*:} is not installed and could not be: some tests will be skipped"; \
	done

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src docs tests README.md ARCHITECTURE.md

# Kills and searches are side by side: the ones wait, the others compute.
soak: $(STAMP)
	$(MAKE) -j2 soak-kills soak-searches

soak-kills: $(STAMP) packages
	$(BIN)/python -m pytest -m soak -s -o faulthandler_timeout=0 tests/crash tests/end_to_end

soak-searches: $(STAMP)
	$(BIN)/python -m pytest -m soak -s -o faulthandler_timeout=0 tests/property

bench: $(STAMP) packages
	$(BIN)/python bench/run.py
	$(BIN)/python bench/store.py
	$(BIN)/python bench/faults.py --quick
	$(BIN)/python bench/slurm.py

dist: $(STAMP)
	$(BIN)/python -m build --outdir dist .

# Debian's python3 comes without ensurepip unless python3-venv is installed: then the system's pip
# fills the environment from outside.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) 2>/dev/null || { rm -rf $(VENV) && $(PYTHON) -m venv --without-pip $(VENV); }
	if $(BIN)/python -m pip --version >/dev/null 2>&1; \
	then $(BIN)/python -m pip install -q -c constraints.txt -e '.[test]'; \
	else $(PYTHON) -m pip --python $(BIN)/python install -q -c constraints.txt -e '.[test]'; fi
	touch $(STAMP)

clean:
	rm -rf $(VENV) dist build
