#!/bin/bash
# refused: --constraint
#SBATCH --constraint="[ib1|ib2]"
true
