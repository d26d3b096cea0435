#!/bin/bash
# wants: 1 gpu=1 cpu=2 time=30m array=0-31%8
#SBATCH --array=0-31%8
#SBATCH --gpus=1 --cpus-per-task=2
#SBATCH -t 30
#SBATCH -o logs/sweep-%A_%a.out -e logs/sweep-%A_%a.err

LR=$(sed -n "$((SLURM_ARRAY_TASK_ID + 1))p" rates.txt)
python sweep.py --lr "$LR"
