#!/bin/bash
# refused: line 4: sattach
#SBATCH -N 2
sattach 7.0
srun tar xf /tmp/data.tar
