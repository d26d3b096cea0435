#!/bin/bash
# refused: --begin: teatime
#SBATCH --begin=teatime
true
