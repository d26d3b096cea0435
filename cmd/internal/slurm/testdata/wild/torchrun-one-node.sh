#!/bin/bash
# wants: 1 gpu=8 type=h100 cpu=96 mem=1Ti time=24h
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:8
#SBATCH --cpus-per-task=96
#SBATCH --mem=0
#SBATCH --exclusive
#SBATCH --time=1-00:00:00

torchrun --standalone --nproc-per-node=8 train.py
