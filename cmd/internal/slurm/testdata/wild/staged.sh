#!/bin/bash
# wants: 1 cpu=4 mem=8Gi time=1h
#SBATCH -J staged --cpus-per-task=4 --mem=8G
#SBATCH -t 01:00:00
#SBATCH -o %x.out -e %x.err
set -euo pipefail
cd "$SLURM_SUBMIT_DIR"
work=$(mktemp -d "${TMPDIR:-/tmp}/$SLURM_JOB_ID.XXXXXX")
trap 'cp "$work"/result result.txt; rm -rf "$work"; echo cleaned >&2' EXIT
cp input.txt "$work"
cd "$work"
solver --threads "$SLURM_CPUS_PER_TASK" input.txt | tee result
false | true
echo never
