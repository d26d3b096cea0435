#!/bin/bash
# refused: --dependency: aftercorr:12
#SBATCH --dependency=aftercorr:12
true
