#!/bin/bash
# wants: 4 apart cpu=32 time=1h
#SBATCH -N 4
#SBATCH --ntasks-per-node=32
#SBATCH -t 1:00:00
#SBATCH -J lammps

mpirun -np $SLURM_NTASKS ./lmp -in in.melt
