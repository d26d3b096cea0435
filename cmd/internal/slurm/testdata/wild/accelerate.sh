#!/bin/bash
# wants: 2 apart gpu=4 cpu=16 time=20h
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:4
#SBATCH --cpus-per-task=16
#SBATCH --time=20:00:00
#SBATCH --output=%x-%j.log
set -e
export GPUS_PER_NODE=4
MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
export LAUNCHER="accelerate launch --num_processes $((SLURM_NNODES * GPUS_PER_NODE)) --num_machines $SLURM_NNODES \
  --machine_rank \$SLURM_PROCID --main_process_ip $MASTER_ADDR --main_process_port 29500"
export CMD="$LAUNCHER finetune.py --model base"
srun --jobid $SLURM_JOB_ID --kill-on-bad-exit=1 bash -c "$CMD"
