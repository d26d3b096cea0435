#!/bin/bash
# wants: 1 gpu=4 cpu=1 time=12h warn=USR1@3m
#SBATCH --gpus=4
#SBATCH --time=12:00:00
#SBATCH --signal=B:USR1@180
#SBATCH --requeue
#SBATCH --open-mode=append
trap 'touch save.now' USR1
python train.py --resume &
wait
