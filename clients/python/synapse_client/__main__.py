"""Runs one task of an Executor: `python -m synapse_client STEM` calls the function stored in STEM.pkl."""

import sys

from .executor import run

sys.exit(run(sys.argv[1]))
