zero=0 batch=batch
job=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}
element=${SLURM_ARRAY_TASK_ID:-4294967294}
user=${SLURM_JOB_USER:-$(id -un 2>/dev/null || id -u)}
out=@OUTPUT@ err=@ERROR@
# If a file cannot be written, an error is printed, and `synapse-cli logs` still shows the output.
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
