#!/bin/bash
# wants: 1 cpu=16 mem=2000Mi time=10m
#SBATCH -n 1
#SBATCH -c 16
#SBATCH --mem=2000
#SBATCH --time=0:10:00
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
./solver
