#!/bin/bash
# wants: 1 cpu=1 time=5m after=1128448779
#SBATCH --dependency=afterok:1128448779
#SBATCH --time=5:00
#SBATCH --kill-on-invalid-dep=yes
python merge.py
