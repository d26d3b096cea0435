#!/bin/bash
# refused: line 4: --mail-type
#SBATCH -n 1
#SBATCH --mail-type=ALL
#SBATCH --mail-user=me@example.org
true
