#!/bin/bash
# wants: 8 cpu=1 time=1h
#SBATCH -n 8
#SBATCH -t 60
for i in $(seq 8); do
  srun -n 1 --exact ./work $i &
done
wait
