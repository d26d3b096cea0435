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
# A login shell (bash -l) sets another PATH. It finds them all the same, as functions.
set -- env "BASH_FUNC_srun%%=() { $d/bin/srun \"\$@\"
}" "BASH_FUNC_scontrol%%=() { $d/bin/scontrol \"\$@\"
}" "$d/slurm_script" "$@"
[ "$SYNAPSE_WORLD_SIZE" = 1 ] || set -- "$SYNAPSE_EXEC" --lead "$@"
exec "$@"
