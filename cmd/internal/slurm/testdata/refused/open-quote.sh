#!/bin/bash
# refused: has an unclosed quote
#SBATCH --job-name="x
true
