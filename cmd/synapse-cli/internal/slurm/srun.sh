#!/bin/sh
# Synapse's srun inside an sbatch job. A step runs a command on the nodes of the allocation. Unsupported options are
# refused by name.
refuse() {
  echo "srun: error: $1" >&2
  exit 1
}
quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
tasks='' nodes='' each='' hosts='' label='' strict='' input='' limit='' exports=ALL dir=$PWD gpus=${SLURM_GPUS_PER_TASK:-}
while [ $# -gt 0 ]; do
  word=$1 value='' has=''
  case $word in
  --) shift && break ;;
  --*=*) value=${word#*=} word=${word%%=*} has=1 ;;
  --*) ;;
  -[nNcwJDKiW]?*) value=${word#-?} word=${word%"$value"} has=1 ;;
  -?) ;;
  -*) refuse "$word: is not supported" ;;
  *) break ;;
  esac
  shift
  case $word in # options with a value
  -n | --ntasks | -N | --nodes | --ntasks-per-node | -c | --cpus-per-task | --gpus-per-task | -w | --nodelist | -J | --job-name | \
    -D | --chdir | --jobid | --export | --mpi | --cpu-bind | -i | --input | -W | --wait)
    [ -n "$has" ] || { [ $# -gt 0 ] || refuse "$word: requires a value"; value=$1; shift; }
    ;;
  esac
  case $word in
  -n | --ntasks) tasks=$value ;;
  -N | --nodes) nodes=$value ;;
  --ntasks-per-node) each=$value ;;
  -w | --nodelist) hosts=$value ;;
  --gpus-per-task) gpus=$value ;;
  -D | --chdir) dir=$value ;;
  -l | --label) label=1 ;;
  -K | --kill-on-bad-exit) [ "$value" = 0 ] || strict=1 ;;
  -c | --cpus-per-task | -J | --job-name | --overlap | --exact | -u | --unbuffered) ;; # all processes share the cores of the node
  --jobid) [ "$value" = "$SLURM_JOB_ID" ] || refuse "--jobid=$value: a step runs in its own job" ;;
  --export) exports=$value ;;
  -i | --input) [ "$value" = none ] || [ "$value" = 0 ] || refuse "--input=$value: only the first process can read input: use 0 or none"
    input=$value ;;
  -W | --wait) limit=$value ;;
  --mpi) [ "$value" = none ] || refuse "--mpi: $value is not supported (mpirun starts its own processes)" ;;
  --cpu-bind) ;; # processes are not bound to cores
  *) refuse "$word: is not supported" ;;
  esac
done
[ $# -gt 0 ] || refuse "a command is required"
for n in "$tasks" "$nodes" "$each" "$gpus"; do
  case $n in *[!0-9]* | 0) refuse "$n: is not a number from 1" ;; esac
done

case $limit in *[!0-9]*) refuse "--wait=$limit: is not a number of seconds" ;; 0) limit='' ;; esac

# Variables of --export, in addition to those of the script.
added=''
case $exports in ALL | ALL,*) rest=${exports#ALL} rest=${rest#,} ;; *) refuse "--export=$exports: must begin with ALL" ;; esac
while [ -n "$rest" ]; do
  one=${rest%%,*} rest=${rest#"${rest%%,*}"} rest=${rest#,}
  name=${one%%=*}
  case $name in '' | [0-9]* | *[!A-Za-z0-9_]*) refuse "--export: $name is not the name of a variable" ;; esac
  case $one in *=*) added="$added
$name=$(quote "${one#*=}"); export $name" ;; esac
done

# The ranks of the gang in this step, one per node.
ranks='' named=0
if [ -n "$hosts" ]; then
  for host in $(echo "$hosts" | tr , ' '); do
    at=0 found=''
    for is in $(echo "$SYNAPSE_HOSTS" | tr , ' '); do
      [ "$is" != "$host" ] || found=$at
      at=$((at + 1))
    done
    [ -n "$found" ] && [ "$at" = "$SYNAPSE_WORLD_SIZE" ] || refuse "--nodelist=$hosts: $host is not one of the job's nodes in SLURM_JOB_NODELIST"
    ranks="$ranks $found" named=$((named + 1))
  done
  nodes=${nodes:-$named}
  [ "$nodes" = "$named" ] || refuse "--nodelist=$hosts: names $named nodes, but --nodes is $nodes"
  tasks=${tasks:-$((nodes * ${each:-1}))}
elif [ -z "$nodes$tasks$each" ]; then
  nodes=$SYNAPSE_WORLD_SIZE tasks=$SLURM_NTASKS
fi
if [ -z "$nodes" ]; then # at most one node per task
  nodes=$SYNAPSE_WORLD_SIZE
  [ -z "$tasks" ] || [ "$tasks" -ge "$nodes" ] || nodes=$tasks
fi
[ "$nodes" -le "$SYNAPSE_WORLD_SIZE" ] || refuse "--nodes=$nodes: the job has only $SYNAPSE_WORLD_SIZE"
tasks=${tasks:-$((nodes * ${each:-1}))}
each=${each:-$(((tasks + nodes - 1) / nodes))}
[ "$tasks" -ge "$nodes" ] && [ "$tasks" -le $((nodes * each)) ] || refuse "--ntasks=$tasks: $nodes nodes with $each tasks each do not fit"
if [ -z "$ranks" ]; then
  n=0
  while [ "$n" -lt "$nodes" ]; do ranks="$ranks $n" n=$((n + 1)); done
fi

# The variables of the script are passed on, except those about the node and its devices.
own=$(env | sed -n 's/^\(SYNAPSE_[A-Z_]*\|CUDA_[A-Z_]*\|NVIDIA_[A-Z_]*\|ROCR_[A-Z_]*\|HIP_[A-Z_]*\|OMPI_MCA_[a-z_]*\)=.*/\1/p')
vars=$(
  unset $own HOME PWD OLDPWD SHLVL HOSTNAME TMPDIR PATH SLURM_NODEID SLURMD_NODENAME SLURM_LOCALID SLURM_PROCID SLURM_GPUS_ON_NODE
  export -p
)
command=exec
for word in "$@"; do command="$command $(quote "$word")"; done
kept=$(mktemp -d "${0%/*}/step.XXXXXX") || exit 1
trap 'rm -rf "$kept"' EXIT
pids='' bad=''
trap 'bad=1' TERM INT

# The names of the nodes in this step, if each rank has a separate node.
list='' at=0
for is in $(echo "$SYNAPSE_HOSTS" | tr , ' '); do
  case "$ranks " in *" $at "*) list=$list${list:+,}$is ;; esac
  at=$((at + 1))
done
[ "$at" = "$SYNAPSE_WORLD_SIZE" ] || list=''

one() { # rank, process, index of the process on its rank, index of the node in the step
  text="cd $(quote "$dir") || exit 1
$vars$added
PATH=$(quote "$PATH"); export PATH
SLURM_PROCID=$2 SLURM_STEP_NUM_TASKS=$tasks SLURM_STEP_NUM_NODES=$nodes SLURM_NTASKS=$tasks SLURM_NPROCS=$tasks
export SLURM_PROCID SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES SLURM_NTASKS SLURM_NPROCS"
  if [ -n "$list" ]; then
    text="$text
SLURM_NODEID=$4 SLURM_NNODES=$nodes SLURM_STEP_NODELIST=$list SLURM_NODELIST=$list
export SLURM_NODEID SLURM_NNODES SLURM_STEP_NODELIST SLURM_NODELIST"
  fi
  if [ "$each" -gt 1 ]; then
    text="$text
SLURM_LOCALID=$3; export SLURM_LOCALID"
  fi
  if [ -n "$gpus" ] && [ "$each" -gt 1 ]; then
    text="$text
CUDA_VISIBLE_DEVICES=\$(echo \"\$CUDA_VISIBLE_DEVICES\" | cut -d, -f$(($3 * gpus + 1))-$(($3 * gpus + gpus))); export CUDA_VISIBLE_DEVICES"
  fi
  text="$text
$command"
  sh -c 'echo "$PPID"' >"$kept/pid.$2" # the process ID of this shell, which exec keeps
  if [ "$1" = "$SYNAPSE_RANK" ]; then
    exec /bin/sh -c "$text"
  fi
  reads=-n
  [ "$2" != 0 ] || [ "$input" = none ] || reads=-q
  exec "$SYNAPSE_EXEC" $reads ":$1" "$text"
}

# The first process reads srun's input, and the others none. A caller such as Hydra may have closed the input.
if [ "$input" != none ] && [ -e /proc/self/fd/0 ]; then exec 5<&0; else exec 5</dev/null; fi
process=0 node=0
for rank in $ranks; do
  here=0
  while [ "$here" -lt "$each" ] && [ "$process" -lt "$tasks" ]; do
    (
      exec 4>&2 2>/dev/null # hides the messages of the shell about killed processes
      [ "$process" != 0 ] || [ "$input" = none ] || exec <&5
      exec 5<&-
      if [ -n "$label" ]; then
        { { (one "$rank" "$process" "$here" "$node"); echo $? >"$kept/$process"; } 2>&1 >&3 | sed -u "s/^/$process: /" >&4; } 3>&1 |
          sed -u "s/^/$process: /"
      else
        (one "$rank" "$process" "$here" "$node") 2>&4
        echo $? >"$kept/$process"
      fi
      rm -f "$kept/pid.$process"
      if [ -n "$limit" ] && mkdir "$kept/first" 2>/dev/null; then # the others get some more seconds
        (exec >/dev/null 2>&1 </dev/null 4>&-; sleep "$limit"; [ ! -d "$kept" ] || kill -TERM $$) &
      fi
      [ -z "$strict" ] || [ "$(cat "$kept/$process")" = 0 ] || kill -TERM $$
    ) &
    pids="$pids $!" process=$((process + 1)) here=$((here + 1))
  done
  node=$((node + 1))
done
# If a failed process ends the step, the others get SIGTERM until they have ended, because one may have just started.
process=0 code=0
for pid in $pids; do
  until [ -s "$kept/$process" ]; do
    if [ -n "$bad" ]; then
      kill $(cat "$kept"/pid.* 2>/dev/null) 2>/dev/null
      sleep 0.1
      continue
    fi
    wait "$pid"
    [ -n "$bad" ] || [ -s "$kept/$process" ] || echo 137 >"$kept/$process"
  done
  process=$((process + 1))
done
wait
process=0
while [ "$process" -lt "$tasks" ]; do
  got=$(cat "$kept/$process")
  [ "$got" = 0 ] || echo "srun: error: task $process: Exited with exit code $got" >&2
  [ "$got" -le "$code" ] || code=$got
  process=$((process + 1))
done
exit "$code"
