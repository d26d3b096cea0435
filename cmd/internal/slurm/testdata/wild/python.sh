#!/usr/bin/env python3
# wants: 1 cpu=1 time=1m
#SBATCH --time=1
import os
print(os.environ["SLURM_JOB_ID"])
