# Every command of the course. `make book` and `make test` are the two you need.

PYTHON ?= python3
PORT ?= 8000
PY := .venv/bin/python
# Stored outputs are made, and compared, on the CPU with one thread (ATTNLIB_DEVICE is read by attnlib.device).
QUIET := ATTNLIB_DEVICE=cpu OMP_NUM_THREADS=1 TQDM_DISABLE=1

.PHONY: help book serve lab test lint bench bench-training notebooks chapter picture rename lock clean

help:            ## list the commands
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

.venv/ready: requirements.txt constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv .venv
	@echo "Installing requirements.txt into .venv: some minutes, about 2 GB ..."
	$(PY) -m pip install -q -r requirements.txt
	@touch $@

book: .venv/ready      ## build the website, warnings are errors
	.venv/bin/jupyter-book build . -W --keep-going
	@echo "The site is built. Open _build/html/index.html (its Run buttons need: make serve)."

serve: book      ## serve the website on this machine (at another port: make serve PORT=8001)
	$(PY) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

lab: .venv/ready       ## open JupyterLab on the notebooks (as root: make lab ARGS=--allow-root)
	.venv/bin/jupyter lab $(ARGS) notebooks

lint: .venv/ready      ## check the style of the code
	.venv/bin/ruff check .

test: lint       ## run every test
	$(QUIET) .venv/bin/pytest -q -n 2 --dist loadfile --no-loadscope-reorder -r fEs

bench: .venv/ready     ## measure the speed, as ratios within one run (two minutes; wants an idle machine)
	OMP_NUM_THREADS=1 $(PY) tests/bench.py

bench-training: .venv/ready ## compare ways to train a translator (a quarter of an hour or more; wants an idle machine)
	$(QUIET) $(PY) tests/bench_training.py

notebooks: .venv/ready ## run all notebooks (or NAME=06_scaled_dot_product) and store their outputs
	$(QUIET) $(PY) book/_tools/notebooks.py run $(NAME)

chapter: .venv/ready   ## start a new chapter: make chapter NAME=12_topic
	$(if $(NAME),,$(error usage: make chapter NAME=12_topic))$(PY) book/_tools/notebooks.py new $(NAME)

picture: .venv/ready   ## train and draw the picture of the landing page again (two minutes; after a change of chapter 01 or 03)
	$(QUIET) $(PY) book/_tools/picture.py

rename:          ## set the repository everywhere: make rename REPO=owner/name
	$(if $(REPO),,$(error usage: make rename REPO=owner/name))$(PYTHON) book/_tools/rename.py $(REPO)

lock: .venv/ready      ## freeze the installed versions into constraints.txt
	$(PY) book/_tools/lock.py

clean:           ## remove what was built (.venv and .cache stay)
	rm -rf _build .pytest_cache .ruff_cache .hypothesis
