#!/bin/sh
# scontrol of Synapse, inside a job of sbatch: it knows the names of the job's machines. All else is for a scontrol that
# was laid on this machine.
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
