#!/bin/bash
# refused: line 4: srun
#SBATCH -N 2
CUDA_LAUNCH_BLOCKING=1 srun python train.py
