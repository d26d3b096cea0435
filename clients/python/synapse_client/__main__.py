"""A task of an Executor: `python -m synapse_client STEM` calls the function that lies there."""

import sys

from .executor import run

sys.exit(run(sys.argv[1]))
