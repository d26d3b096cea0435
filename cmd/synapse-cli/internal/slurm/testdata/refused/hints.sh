#!/bin/bash
# refused: --hint
#SBATCH --hint=nomultithread
true
