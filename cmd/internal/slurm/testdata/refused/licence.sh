#!/bin/bash
# refused: --licenses
#SBATCH --licenses=ansys:4
true
