#!/bin/bash
# refused: line 4: hetjob
#SBATCH -n 1
#SBATCH hetjob
#SBATCH -n 4
true
