#!/bin/bash -l
# wants: 2 apart cpu=96 mem=1Ti time=3h queue=compute
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=24
#SBATCH --exclusive
#SBATCH --partition=compute
#SBATCH --time=03:00:00
export OMP_NUM_THREADS=${SLURM_CPUS_PER_TASK:-1}
export OMP_PLACES=cores
srun --cpus-per-task=$SLURM_CPUS_PER_TASK --cpu-bind=none ./hybrid input.nml
