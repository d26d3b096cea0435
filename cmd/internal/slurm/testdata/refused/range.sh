#!/bin/bash
# refused: --nodes: 2-8
#SBATCH -N 2-8
true
