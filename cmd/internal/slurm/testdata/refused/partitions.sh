#!/bin/bash
# refused: --partition: short,long
#SBATCH -p short,long
true
