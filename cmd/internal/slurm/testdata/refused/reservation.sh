#!/bin/bash
# refused: --reservation
#SBATCH --reservation=training
true
