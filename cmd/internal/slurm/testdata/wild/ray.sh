#!/bin/bash
# wants: 3 apart gpu=8 cpu=32 time=2h
#SBATCH --job-name=ray
#SBATCH --nodes=3 --ntasks-per-node=1 --cpus-per-task=32 --gpus-per-node=8
#SBATCH --time=2:00:00
nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
nodes_array=($nodes)
head=${nodes_array[0]}
srun --nodes=1 --ntasks=1 -w "$head" ray start --head --num-gpus 8 --block &
for ((i = 1; i < SLURM_JOB_NUM_NODES; i++)); do
  srun --nodes=1 --ntasks=1 -w "${nodes_array[$i]}" ray start --address "$head:6379" --num-gpus 8 --block &
done
until ray status "$SLURM_JOB_NUM_NODES"; do sleep 0.2; done
python -u tune.py
