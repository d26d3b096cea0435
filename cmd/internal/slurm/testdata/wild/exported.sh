#!/bin/bash
# wants: 1 cpu=1 queue=debug priority=100
#SBATCH --export=ALL,WANDB_MODE=offline
#SBATCH --qos=100
#SBATCH -p debug
env
