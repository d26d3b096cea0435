#!/bin/bash
# wants: 2 apart cpu=8 time=20m
#SBATCH -N 2 -n 16 -t 20
srun ./hello
