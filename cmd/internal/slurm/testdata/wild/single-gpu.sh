#!/bin/bash
# wants: 1 gpu=1 cpu=4 mem=16Gi time=2h queue=gpu
#SBATCH --job-name=finetune        # what it is called
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem=16G
#SBATCH --time=02:00:00
#SBATCH --output=%x_%j.log

module load cuda 2>/dev/null || true
source ~/venv/bin/activate
python train.py "$@"
