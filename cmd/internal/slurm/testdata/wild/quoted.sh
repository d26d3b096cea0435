#!/bin/bash
# wants: 1 cpu=1 workdir=/scratch/my runs
#SBATCH --job-name="my run" --chdir="/scratch/my runs"
#SBATCH --output='/scratch/my runs/%j.out'
##SBATCH --gres=gpu:8
#   SBATCH --gres=gpu:8

echo begins
#SBATCH --gres=gpu:8
