#!/bin/bash
# refused: --dependency: singleton
#SBATCH --dependency=singleton
true
