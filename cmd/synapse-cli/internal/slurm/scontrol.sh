#!/bin/sh
# Synapse's scontrol inside an sbatch job. It handles the names of the job's nodes, and passes everything else to a
# scontrol that is installed on this node.
if [ "$1 $2" = "show hostnames" ]; then
  case ${3:-$SLURM_JOB_NODELIST} in
  *\[*) ;;
  *) echo "${3:-$SLURM_JOB_NODELIST}" | tr , '\n' && exit ;;
  esac
fi
PATH=${PATH#"${0%/*}":}
program=$(command -v scontrol) || {
  echo "scontrol: error: only \`show hostnames\` of names without brackets is known in a job" >&2
  exit 1
}
exec "$program" "$@"
