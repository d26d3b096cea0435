#!/bin/sh
# Made by sbatch of Synapse. The script that was submitted stands inside, and runs on the first node.
if [ "$SYNAPSE_RANK" != 0 ]; then
  exec "$SYNAPSE_EXEC" --lead true # it holds the node until the script has ended
fi
d=${SYNAPSE_HOSTFILE%/*}/slurm
mkdir -p "$d/bin" || exit 1
cat >"$d/slurm_script" <<'@ENDS@'
@SCRIPT@@ENDS@
cat >"$d/bin/srun" <<'@ENDS@'
@SRUN@@ENDS@
cat >"$d/bin/scontrol" <<'@ENDS@'
@SCONTROL@@ENDS@
chmod 755 "$d/slurm_script" "$d/bin/srun" "$d/bin/scontrol"
PATH=$d/bin:$PATH
export PATH
@FILES@
if [ "$SYNAPSE_WORLD_SIZE" = 1 ]; then
  exec "$d/slurm_script" "$@"
fi
exec "$SYNAPSE_EXEC" --lead "$d/slurm_script" "$@"
