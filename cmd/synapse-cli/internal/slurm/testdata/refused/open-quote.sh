#!/bin/bash
# refused: has a quote that is not closed
#SBATCH --job-name="x
true
