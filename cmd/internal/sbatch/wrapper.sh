#!/bin/sh
# Created by Synapse's sbatch. It contains the submitted script, which runs on the first node.
if [ "$SYNAPSE_RANK" != 0 ]; then
  exec "$SYNAPSE_EXEC" --lead true # holds the node until the script has ended
fi
d=${SYNAPSE_HOSTFILE%/*}/slurm
mkdir -p "$d/bin" || exit 1
cat >"$d/slurm_script" <<'@ENDS@'
@SCRIPT@@ENDS@
cat >"$d/bin/srun" <<'@ENDS@'
@SRUN@@ENDS@
cat >"$d/bin/scontrol" <<'@ENDS@'
@JOB@@ENDS@
cat >"$d/bin/sbcast" <<'@ENDS@'
@SBCAST@@ENDS@
chmod 755 "$d/slurm_script" "$d/bin/srun" "$d/bin/scontrol" "$d/bin/sbcast"
ln -sf scontrol "$d/bin/squeue"
ln -sf scontrol "$d/bin/scancel"
PATH=$d/bin:$PATH
SLURM_JOBID=$SLURM_JOB_ID # Open MPI's mpirun starts its daemons by srun if this variable is set
export PATH SLURM_JOBID
unset SLURM_STEP_ID SLURM_STEP_NODELIST SLURM_STEP_NUM_NODES SLURM_STEP_NUM_TASKS SLURM_STEP_TASKS_PER_NODE
@FILES@
# scancel --batch finds the script by its process ID. A login shell (bash -l) sets another PATH, so the commands are also exported as functions.
set -- /bin/sh -c 'echo $$ >"$0/pid"; exec "$@"' "$d" env "BASH_FUNC_srun%%=() { $d/bin/srun \"\$@\"
}" "BASH_FUNC_scontrol%%=() { $d/bin/scontrol \"\$@\"
}" "BASH_FUNC_squeue%%=() { $d/bin/squeue \"\$@\"
}" "BASH_FUNC_scancel%%=() { $d/bin/scancel \"\$@\"
}" "BASH_FUNC_sbcast%%=() { $d/bin/sbcast \"\$@\"
}" "$d/slurm_script" "$@"
[ "$SYNAPSE_WORLD_SIZE" = 1 ] || set -- "$SYNAPSE_EXEC" --lead "$@"
exec "$@"
