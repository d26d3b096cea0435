# Sends a signal to processes of this task, and prints how many there were. An exec session runs this in each task.
# The arguments are the signal, the kind of the processes, and the number of a step, or nothing for all steps.
found=0 pids=''
of() { tr '\0' '\n' 2>/dev/null <"/proc/$1/$2"; }
has() { echo "$text" | grep -qx "$1"; }
by() { of "$1" cmdline | grep -q '/slurm/bin/srun$'; } # whether it is an srun
for at in /proc/[0-9]*; do
  pid=${at#/proc/}
  { text=$(of "$pid" environ); } 2>/dev/null
  has "SYNAPSE_ATTEMPT=$SYNAPSE_ATTEMPT" && has "SYNAPSE_RANK=$SYNAPSE_RANK" && ! has 'SLURM_SCANCEL=.*' || continue
  case $2 in
  batch) [ "$pid" = "$(cat "${SYNAPSE_HOSTFILE%/*}/slurm/pid" 2>/dev/null)" ] || continue ;;
  task) # all processes of a job without an srun
    case $(readlink "$at/exe") in *synapse* | *carapace*) continue ;; esac
    [ "$pid" != 1 ] || continue
    ;;
  *)
    if has "SLURM_STEPID=${3:-.*}"; then
      ! by "$pid" || continue
    elif [ "$2" = full ] && has 'SLURM_JOBID=.*'; then # the script and its children, except an srun and its parts
      [ "$(of "$pid" cmdline | head -n 1)" != "$SYNAPSE_EXEC" ] && ! by "$pid" || continue
      ! by "$(sed 's/.*) [A-Z] \([0-9]*\).*/\1/' "$at/stat" 2>/dev/null)" || continue
    else
      continue
    fi
    ;;
  esac
  found=$((found + 1)) pids="$pids $pid"
done
echo "$found" # first, because the signal may end the task and this session
[ -z "$pids" ] || kill -"$1" $pids 2>/dev/null || true
