#!/bin/bash
# refused: --bb
#SBATCH --bb="capacity=100G"
true
