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
zero=0 batch=batch
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
element=${SLURM_ARRAY_TASK_ID:-4294967294}
user=${SLURM_JOB_USER:-$(id -un 2>/dev/null || id -u)}
out=@OUTPUT@ err=@ERROR@
# A file that cannot be written is told, and the output stays where `synapse-cli logs` finds it.
if (: >>"$out") 2>/dev/null; then
  echo "sbatch: output goes to $out on $SYNAPSE_NODE, in $PWD" >&2
  if [ -z "$err" ]; then
    exec @HOW@"$out" 2>&1
  elif (: >>"$err") 2>/dev/null; then
    exec @HOW@"$out" 2@HOW@"$err"
  else
    echo "sbatch: $err cannot be written on $SYNAPSE_NODE, in $PWD: errors are in \`synapse-cli logs\`" >&2
    exec @HOW@"$out"
  fi
else
  echo "sbatch: $out cannot be written on $SYNAPSE_NODE, in $PWD: the output is in \`synapse-cli logs\`" >&2
fi
if [ "$SYNAPSE_WORLD_SIZE" = 1 ]; then
  exec "$d/slurm_script" "$@"
fi
exec "$SYNAPSE_EXEC" --lead "$d/slurm_script" "$@"
