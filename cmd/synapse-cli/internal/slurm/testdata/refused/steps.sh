#!/bin/bash
# refused: line 4: sbcast
#SBATCH -N 2
sbcast data.tar /tmp/data.tar
srun tar xf /tmp/data.tar
