#!/bin/bash
# refused: --gres: gpu:a100:1,gpu:v100:1
#SBATCH --gres=gpu:a100:1,gpu:v100:1
true
