#!/bin/bash
# wants: 4 apart gpu=8 cpu=96 time=12h
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=96
#SBATCH --time=12:00:00

nodes=( $( scontrol show hostnames $SLURM_JOB_NODELIST ) )
head_node=${nodes[0]}
head_node_ip=$(srun --nodes=1 --ntasks=1 -w "$head_node" hostname --ip-address)
export NCCL_DEBUG=INFO

srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --rdzv_id $RANDOM --rdzv_backend c10d \
  --rdzv_endpoint $head_node_ip:29500 train.py "$@"
