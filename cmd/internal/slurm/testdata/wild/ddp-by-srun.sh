#!/bin/bash
# wants: 2 apart gpu=4 cpu=32 time=4h
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=8
#SBATCH --time=4:00:00
export MASTER_PORT=12340
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --label --kill-on-bad-exit=1 python ddp.py
