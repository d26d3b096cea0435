#!/bin/bash
# refused: --dependency: aftercorr requires an array
#SBATCH --dependency=aftercorr:12
true
