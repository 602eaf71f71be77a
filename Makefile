# Two commands do everything: `make demo` and `make test`. Both set up what they need, inside this folder.

PYTHON ?= python3
VENV   ?= .venv
PEERS  := .venv-peers
BIN    := $(VENV)/bin
JOBS   ?= auto

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_BUILD_CONSTRAINT := $(CURDIR)/constraints.txt
# Tests start many processes: what one of them has compiled, the others find.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test golden check format bench performance docs dist requirements release clean

help:
	@echo "make demo    set up, run the whole story on generated hospitals, end with a report"
	@echo "make test    set up, run all tests"
	@echo "make golden  write the golden files again, after a format has changed"
	@echo "make check   format, lint, types, import layers"
	@echo "make bench   everything that is measured, and the pages about it (ARGS=--quick, ARGS=--full, ARGS=arena)"
	@echo "make performance   write the pages again from what make bench has found"
	@echo "make docs    build the documentation into site/"
	@echo "make dist    build the packages into dist/, with a bill of materials"
	@echo "make requirements   write dist/requirements.txt: what the service needs, pinned, with hashes"
	@echo "make release VERSION=0.2.0   check version and changelog, build the packages, tag; pushes nothing"
	@echo "make clean   remove everything that the commands above have made"

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "elldelta needs Python 3.11 or newer; '$(PYTHON)' is older. Try: make PYTHON=python3.12 ..."; exit 2; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "Python could not make a virtual environment. On Debian or Ubuntu: apt install python3-venv"; exit 2; }
	@touch $@

# One stamp per set of extras: a second run installs nothing unless the requirements have changed.
$(VENV)/.installed-demo: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.installed-test: $(VENV)/.created pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	@touch $@ $(VENV)/.installed-demo

# The peers need older libraries than we do: they live apart. Where they cannot be installed, the rest is measured.
$(PEERS)/.installed: benchmarks/peers.txt
	@{ $(PYTHON) -m venv $(PEERS) && $(PEERS)/bin/python -m pip install --quiet -r benchmarks/peers.txt && touch $@; } \
	  || { rm -rf $(PEERS); echo "The peers cannot be installed here; they are not compared."; }

$(VENV)/.installed-check: $(VENV)/.installed-test
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test,check]'
	@touch $@

$(VENV)/.installed-docs: $(VENV)/.installed-demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

$(VENV)/.installed-dist: $(VENV)/.installed-demo
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dist]'
	@touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/elldelta demo --output demo --overwrite

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

golden: $(VENV)/.installed-test
	$(BIN)/python tests/golden/make.py

check: $(VENV)/.installed-check
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-check
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-test $(PEERS)/.installed
	$(BIN)/python -m benchmarks $(ARGS)

performance: $(VENV)/.installed-test
	$(BIN)/python -m benchmarks --write-docs

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

# The bill of materials lists what the service needs, with hashes: the same as dist/requirements.txt.
dist: $(VENV)/.installed-dist requirements
	rm -f dist/*.whl dist/*.tar.gz dist/*.cdx.json
	$(BIN)/hatchling build
	$(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible \
	  --output-file dist/elldelta.cdx.json dist/requirements.txt

# Hashes are those of the files that pip would install on this machine, from the index that it is set to use.
requirements: $(VENV)/.created
	@mkdir -p dist
	$(BIN)/python -m pip install --quiet --dry-run --ignore-installed --constraint constraints.txt \
	  --report dist/report.json '.[server,oidc]'
	$(BIN)/python deploy/hashed_requirements.py dist/report.json > dist/requirements.txt
	@rm dist/report.json
	@echo "Install with: pip install --require-hashes -r dist/requirements.txt, then pip install --no-deps elldelta"

# What is tagged was built from a clean checkout whose changelog, version and citation agree.
release:
	@$(PYTHON) deploy/release.py '$(VERSION)'
	$(MAKE) check dist
	git tag --annotate 'v$(VERSION)' --message 'elldelta $(VERSION)'
	@echo "Tagged v$(VERSION); the packages are in dist/. Nothing was pushed: git push origin v$(VERSION)"

clean:
	rm -rf $(VENV) $(PEERS) site demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist
