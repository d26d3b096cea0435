#!/bin/bash
# wants: 8 apart gpu=8 cpu=16 time=48h exclude=gpu13 required=rack
#SBATCH --nodes=8
#SBATCH --gres=gpu:8
#SBATCH --ntasks-per-node=8 --cpus-per-task=2
#SBATCH --switches=1
#SBATCH --exclude=gpu13
#SBATCH --time=2-0
mpirun python pretrain.py
