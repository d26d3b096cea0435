#!/bin/bash
# wants: 64 cpu=1 mem=2Gi time=4h queue=compute
#SBATCH --ntasks=64
#SBATCH --mem-per-cpu=2G
#SBATCH --time=04:00:00
#SBATCH -p compute
mpirun ./cfd case.cfg
