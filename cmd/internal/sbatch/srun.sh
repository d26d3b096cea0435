#!/bin/sh
# Synapse's srun inside an sbatch job. A step runs commands on the nodes of the allocation. The script first plans all
# processes, each in files of a temporary folder, and then starts them. Unsupported options are refused by name.
fail() {
  echo "srun: error: $1" >&2
  exit 1
}
quote() {
  case $1 in
  '' | *[!A-Za-z0-9_./=:,@%+-]*) printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
  *) printf %s "$1" ;;
  esac
}
@LIST@
# The options: = needs a value, and ? may have one. Those of "others" have no effect in a step, because all processes
# share the cores and the memory of their node.
longs='ntasks= nodes= ntasks-per-node= cpus-per-task= gpus-per-task= nodelist= exclude= relative= chdir= jobid= export=
container-image= container-mounts= container-workdir=
mpi= input= output= error= open-mode= wait= time= label kill-on-bad-exit? multi-prog het-group= version help usage'
quiet='job-name= unbuffered overlap oversubscribe exact exclusive? cpu-bind= verbose quiet external-launcher account=
container-env= container-name= container-writable container-mount-home no-container-mount-home no-container-remap-root
no-container-entrypoint partition= qos= comment= wckey= immediate? slurmd-debug= no-kill'
others='mem= mem-per-cpu= mem-per-gpu= mem-bind= distribution= hint= gres= gpus= gpus-per-node= gpus-per-socket= gpu-bind=
gres-flags= cpus-per-gpu= threads-per-core= ntasks-per-core= ntasks-per-socket= cpu-freq= gpu-freq= profile= acctg-freq=
propagate= resv-ports? overcommit network= tres-per-task= tres-bind= core-spec= extra-node-info= compress?'
known=$(echo $longs $quiet $others)
letter() { # the name of a letter
  case $1 in
  n) echo ntasks= ;; N) echo nodes= ;; c) echo cpus-per-task= ;; w) echo nodelist= ;; x) echo exclude= ;;
  r) echo relative= ;; D) echo chdir= ;; i) echo input= ;; o) echo output= ;; e) echo error= ;; W) echo wait= ;;
  t) echo time= ;; l) echo label ;; K) echo kill-on-bad-exit? ;; J) echo job-name= ;; u) echo unbuffered ;;
  s) echo oversubscribe ;; v) echo verbose ;; Q) echo quiet ;; A) echo account= ;; p) echo partition= ;;
  q) echo qos= ;; G) echo gpus= ;; m) echo distribution= ;; O) echo overcommit ;; V) echo version ;; h) echo help ;;
  I) echo immediate? ;; B) echo extra-node-info= ;; S) echo core-spec= ;; k) echo no-kill ;;
  esac
}
full() { # the option with a name, or the only one with this prefix
  found=''
  for each in $known; do
    case $each in
    "$1" | "$1=" | "$1?") echo "$each" && return ;;
    "$1"*) found="$found $each" ;;
    esac
  done
  case $found in
  '') fail "--$1: is not supported" ;;
  *' '*' '*) fail "--$1: is ambiguous:$(echo "$found" | tr -d '=?')" ;;
  esac
  echo "${found# }"
}
count() { # checks a number
  case $2 in '' | *[!0-9]* | 0) fail "--$1=$2: is not a number from 1" ;; esac
}
seconds() { # a duration of Slurm
  days=0 rest=$1
  case $rest in
  *[!0-9:-]* | '') fail "--time=$1: write 30, 30:00, 2:00:00 or 1-12" ;;
  *-*) days=${rest%%-*} rest=${rest#*-} rest=$rest:0:0 rest=$(echo "$rest" | cut -d: -f1-3) ;;
  *:*:*) ;;
  *:*) rest=0:$rest ;;
  *) rest=0:$rest:0 ;;
  esac
  echo "$days:$rest" | { IFS=: read -r d h m s && echo $(($(bare "$d") * 86400 + $(bare "$h") * 3600 + $(bare "$m") * 60 + $(bare "$s"))); }
}

# exchange checks --mpi. Each step with several processes has a server of PMI-1, by which the ranks of MPICH find each
# other. There is no PMIx, and Open MPI then ends with an error of its own.
exchange() {
  case $mpi in
  none | pmi1 | pmi2) ;;
  pmix | pmix_v[0-9]* | openmpi)
    [ -n "$exchanged" ] || echo "srun: warning: --mpi=$mpi: there is no PMIx here: start programs of Open MPI with mpirun; programs of MPICH and programs without MPI run as usual" >&2
    exchanged=1
    ;;
  list) printf 'MPI plugin types are...\n\tnone\n\tpmi1\n\tpmi2\n' && exit ;;
  *) fail "--mpi=$mpi: use pmi2 (MPICH), pmix (accepted, has no effect), none or list" ;;
  esac
}

# Slurm's options from the environment.
label='' strict='' limit=${SLURM_WAIT:-} until='' input='' output=${SLURM_STDOUTMODE:-} errors=${SLURM_STDERRMODE:-}
appends='' warned='' exchanged='' mpi=${SLURM_MPI_TYPE:-pmi2}
[ -z "$SLURM_LABELIO" ] || [ "$SLURM_LABELIO" = 0 ] || label=1
[ -z "$SLURM_KILL_BAD_EXIT" ] || [ "$SLURM_KILL_BAD_EXIT" = 0 ] || strict=1
option() { # applies an option
  case $1 in
  ntasks) count "$1" "$2" && tasks=$2 ;;
  nodes) [ "${2%%-*}" = "${2#*-}" ] || fail "--nodes=$2: ranges are not supported, because the job has fixed nodes"
    count "$1" "${2%%-*}" && nodes=${2%%-*} ;;
  ntasks-per-node) count "$1" "$2" && each=$2 ;;
  cpus-per-task) count "$1" "$2" && cpus=$2 ;;
  gpus-per-task) count "$1" "${2##*:}" && gpus=${2##*:} ;;
  nodelist) names=$names${names:+,}$2 ;;
  exclude) without=$without${without:+,}$2 ;;
  relative) case $2 in '' | *[!0-9]*) fail "--relative=$2: is not a number" ;; esac && skip=$2 ;;
  chdir | container-workdir) dir=$2 ;;
  container-image)
    image=$(printf %s "${2#docker://}" | sed 's/^[^#@]*@\([^#]*#\)/\1/; s/#/\//')
    case $image in
    "$SLURM_JOB_CONTAINER_IMAGE") ;;
    .*) [ -n "$SLURM_JOB_CONTAINER_IMAGE" ] ;; # a path that was relative to the folder of the submit
    *) false ;;
    esac || fail "--container-image=$2: all steps run in the image of the job, ${SLURM_JOB_CONTAINER_IMAGE:-which is the node: submit with --container-image}"
    ;;
  container-mounts)
    for one in $(echo "$2" | tr , ' '); do
      target=${one#*:}
      [ -e "${target%%:*}" ] || fail "--container-mounts=$one: ${target%%:*} does not exist in the container of the job: add it to #SBATCH --container-mounts"
    done
    ;;
  label) label=1 ;;
  kill-on-bad-exit) [ "$2" = 0 ] && strict='' || strict=1 ;;
  multi-prog) several=1 ;;
  export) exports=$2 ;;
  input) input=$2 ;;
  output) output=$2 ;;
  error) errors=$2 ;;
  open-mode) case $2 in a | append) appends=1 ;; t | truncate) appends='' ;; *) fail "--open-mode=$2: use append or truncate" ;; esac ;;
  wait) case $2 in '' | *[!0-9]*) fail "--wait=$2: is not a number of seconds" ;; esac && limit=$2 ;;
  time) until=$(seconds "$2") || exit 1 ;;
  jobid) [ "$2" = "$SLURM_JOB_ID" ] || fail "--jobid=$2: a step runs in its own job" ;;
  mpi) mpi=$2 && exchange ;;
  het-group) fail "--het-group=$2: the job has one group of nodes: select nodes with --nodelist or --relative" ;;
  version) echo "slurm @VERSION@" && exit ;;
  help | usage) echo "Usage: srun [OPTIONS...] COMMAND [args...] [: [OPTIONS...] COMMAND...]" && exit ;;
  *)
    case " $(echo $others) " in *" $1="* | *" $1? "* | *" $1 "*)
      case " $warned " in *" $1 "*) ;; *) warned="$warned $1"
        echo "srun: warning: --$1 has no effect on a step, whose processes share their nodes" >&2 ;;
      esac ;;
    esac
    ;;
  esac
}

# The nodes of the job. On a node with several tasks of the gang, a process runs in the first of them.
places='' hosts=0
for is in $(echo "$SYNAPSE_HOSTS" | tr , ' '); do
  places="$places :$hosts=$is" hosts=$((hosts + 1))
done
shares='' ranks=''
if [ "$hosts" != "$SYNAPSE_WORLD_SIZE" ]; then
  shares=1 places=$(echo "$places" | sed 's/:[0-9]*=\([^ ]*\)/\1=\1/g') n=0
  while [ "$n" -lt "$SYNAPSE_WORLD_SIZE" ]; do ranks="$ranks :$n=" n=$((n + 1)); done
fi
kept=$(mktemp -d "${0%/*}/step.XXXXXX") || exit 1
timers='' servers=''
trap 'rm -rf "$kept"; [ -z "$timers$servers" ] || kill $timers $servers 2>/dev/null' EXIT
step=$(ls -d "${0%/*}"/step-* 2>/dev/null | wc -l)
until mkdir "${0%/*}/step-$step" 2>/dev/null; do step=$((step + 1)); done

# variables prints the variables of the script as commands. Those about the node and its devices belong to each task.
variables() (
  added='' rest=$exports
  while [ -n "$rest" ]; do
    one=${rest%%,*} rest=${rest#"${rest%%,*}"} rest=${rest#,}
    name=${one%%=*}
    case $name in '' | [0-9]* | *[!A-Za-z0-9_]*) fail "--export: $name is not the name of a variable" ;; esac
    case $one in *=*) added="$added
$name=$(quote "${one#*=}"); export $name" ;; esac
  done
  own=$(env | sed -n 's/^\(SYNAPSE_[A-Z_]*\|CUDA_[A-Z_]*\|NVIDIA_[A-Z_]*\|ROCR_[A-Z_]*\|HIP_[A-Z_]*\|OMPI_MCA_[a-z_]*\)=.*/\1/p')
  names=$(env | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/\1/p')
  unset $own HOME PWD OLDPWD SHLVL HOSTNAME TMPDIR SLURM_NODEID SLURMD_NODENAME SLURM_LOCALID SLURM_PROCID SLURM_GPUS_ON_NODE
  gone=''
  case ,$exports, in
  *,ALL,*) ;;
  *)
    for name in $names; do
      case $name in SLURM_* | SYNAPSE_* | HOME | PATH | HOSTNAME | TMPDIR) continue ;; esac
      case ",$exports, $(echo $own) " in *",$name,"* | *" $name "*) ;; *) gone="$gone $name" ;; esac
    done
    [ -z "$gone" ] || { unset $gone; echo "unset$gone"; }
    ;;
  esac
  export -p
  echo "$added"
)

# file converts the pattern of a file name for one process.
file() { # option, pattern, process, index of the node, name of the node
  text=$2 path=''
  case $text in
  '' | all) return ;;
  none) echo /dev/null && return ;;
  *[!0-9]*) ;;
  *) [ "$text" = "$3" ] || echo /dev/null; return ;;
  esac
  while [ -n "$text" ]; do
    case $text in
    %%*) path=$path% text=${text#??} && continue ;;
    %*) ;;
    *) path=$path${text%%"%"*} && case $text in *%*) text=%${text#*%} ;; *) text='' ;; esac && continue ;;
    esac
    text=${text#%} width=''
    while case $text in [0-9]*) ;; *) false ;; esac do width=$width${text%"${text#?}"} text=${text#?}; done
    sign=${text%"${text#?}"} text=${text#?}
    case $sign in
    j) value=$SLURM_JOB_ID ;; J) value=$SLURM_JOB_ID.$step width='' ;; A) value=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID} ;;
    a) value=${SLURM_ARRAY_TASK_ID:-4294967294} ;; t) value=$3 ;; n) value=$4 ;; s) value=$step ;;
    N) value=$5 width='' ;; u) value=${SLURM_JOB_USER:-$(id -un 2>/dev/null || id -u)} width='' ;; x) value=$SLURM_JOB_NAME width='' ;;
    *) fail "--$1: unknown placeholder %$sign: use %j, %J, %A, %a, %t, %n, %s, %N, %u, %x and %%" ;;
    esac
    [ -z "$width" ] || value=$(printf "%0${width#0}d" "$value")
    path=$path$value
  done
  case $path in /*) echo "$path" ;; *) echo "$PWD/$path" ;; esac
}
opened() { # creates a file of the output once
  [ -n "$2" ] && [ "$2" != /dev/null ] || return 0
  grep -qxF "$2" "$kept/files" 2>/dev/null && return
  echo "$2" >>"$kept/files"
  if [ -n "$appends" ]; then : >>"$2"; else : >"$2"; fi 2>/dev/null || fail "--$1: $2 cannot be written on $SYNAPSE_NODE"
}

# programs plans the commands of --multi-prog: ranks, and a program with its arguments, in which %t is the rank and %o
# the position in the ranks.
programs() { # the file
  [ -r "$1" ] || fail "--multi-prog: $1 cannot be read on $SYNAPSE_NODE"
  sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' -e 's/^[ 	]*//' "$1" | while IFS='	 ' read -r which rest; do
    case $which in '' | '#'*) continue ;; esac
    [ -n "$rest" ] || fail "--multi-prog: $which has no program"
    case $which in
    \*) which=0-$((tasks - 1)) ;;
    *[!0-9,-]*) fail "--multi-prog: $which: write ranks such as 0,2-4, or *" ;;
    esac
    text='' words=$(printf '%s\n' "$rest" | xargs -n1 printf '%s\n') || fail "--multi-prog: $rest: has an unclosed quote"
    while IFS= read -r word; do text="$text $(quote "$word")"; done <<WORDS
$words
WORDS
    at=0
    for rank in $(spread "[$which]"); do
      [ -e "$kept/program.$rank" ] ||
        printf '%s\n' "exec$text" | sed "s/%t/$rank/g; s/%o/$at/g" >"$kept/program.$rank"
      at=$((at + 1))
    done
  done || exit 1
}

place() { # finds the last place with a name among these, because nodes of a test may share a name
  spot='' others=''
  for at in $2; do
    if [ "${at#*=}" = "$1" ]; then others="$others $spot" spot=$at; else others="$others $at"; fi
  done
  [ -n "$spot" ]
}
total=0 allNodes=0 component=0 spots=''
plan() { # the processes of a component
  all=$places byHost=1
  if [ -n "$shares" ] && [ -z "$nodes$names$each$skip$without" ]; then all=$ranks byHost=''; fi
  if [ -n "$without" ]; then
    from=$all all='' without=$(expand "$without") || fail "--exclude: is not a list of nodes"
    for one in $from; do place "${one#*=}" "$(for name in $without; do echo "=$name"; done)" || all="$all $one"; done
  fi
  if [ -n "$names" ]; then
    from=$all all='' list=$(expand "$names") || fail "--nodelist=$names: is not a list of nodes"
    for name in $list; do
      place "$name" "$from" || fail "--nodelist=$names: $name is not one of the job's nodes in SLURM_JOB_NODELIST"
      all="$all $spot" from=$others
    done
  elif [ -n "$skip" ]; then
    all=$(echo $all | tr ' ' '\n' | sed "1,${skip}d")
    [ "$skip" = 0 ] && all=$places || [ -n "$all" ] || fail "--relative=$skip: the job has only $hosts nodes"
  elif [ "$component" -gt 0 ]; then # after the nodes of the components before
    all="$(echo $all $all | cut -d' ' -f$((allNodes % hosts + 1))-$((allNodes % hosts + hosts)))"
  fi
  has=$(echo $all | wc -w)
  [ -z "$names" ] || nodes=${nodes:-$has}
  [ -z "$names" ] || [ "$nodes" = "$has" ] || fail "--nodelist=$names: names $has nodes, but --nodes is $nodes"
  if [ -z "$nodes$tasks$each" ] && [ "$mixed" = 1 ]; then
    nodes=1 tasks=1
  elif [ -z "$nodes$tasks$each$skip$without" ]; then
    nodes=$has tasks=$SLURM_NTASKS
  fi
  if [ -z "$nodes" ]; then # at most one node per task
    nodes=$has
    [ -z "$tasks" ] || [ "$((tasks + ${each:-1} - 1))" -ge $((nodes * ${each:-1})) ] || nodes=$(((tasks + ${each:-1} - 1) / ${each:-1}))
  fi
  [ "$nodes" -le "$has" ] || fail "--nodes=$nodes: the job has only $has"
  tasks=${tasks:-$((nodes * ${each:-1}))}
  if [ "$tasks" -lt "$nodes" ] && [ -z "$names" ]; then
    echo "srun: warning: $tasks processes run on $tasks nodes, and not on $nodes" >&2
    nodes=$tasks
  fi
  [ "$tasks" -ge "$nodes" ] && { [ -z "$each" ] || [ "$tasks" -le $((nodes * each)) ]; } ||
    fail "--ntasks=$tasks: $nodes nodes with ${each:-1} tasks each do not fit"
  base=$((tasks / nodes)) extra=$((tasks % nodes)) perNode=''
  all=$(echo $all | cut -d' ' -f1-"$nodes") list=$(echo "$all" | tr ' ' '\n' | sed 's/.*=//' | paste -s -d, -)
  perNode=$([ "$extra" = 0 ] || echo "$((base + 1))$([ "$extra" = 1 ] || echo "(x$extra)"),")$base$([ $((nodes - extra)) = 1 ] || echo "(x$((nodes - extra)))")
  [ -z "$several" ] || programs "$file"
  node=0
  for place in $all; do
    here=$base slot=0
    [ "$node" -ge "$extra" ] || here=$((base + 1))
    while [ "$slot" -lt "$here" ]; do process && slot=$((slot + 1)) && total=$((total + 1)) || exit 1; done
    node=$((node + 1))
  done
  allNodes=$((allNodes + nodes)) component=$((component + 1))
}
process() { # one process of the plan
  at=${place#*=} spots=$spots${spots:+,}$((allNodes + node))
  out=$(file output "$output" "$total" "$node" "$at") && err=$(file error "$errors" "$total" "$node" "$at") || exit 1
  in=$input
  case $in in
  '' | 0) [ "$total" = 0 ] && in=all || in=none ;;
  all | none) ;;
  *[!0-9]*)
    in=$(file input "$in" "$total" "$node" "$at") || exit 1
    [ -r "$in" ] || fail "--input: $in cannot be read on $SYNAPSE_NODE"
    ;;
  "$total") in=all ;;
  *) in=none ;;
  esac
  opened output "$out"
  opened error "$err"
  printf '%s\n' "${place%%=*}" "$component" "$out" "$err" "$in" >"$kept/to.$total"
  {
    echo "SLURM_PROCID=$total; export SLURM_PROCID"
    [ -z "$cpus" ] || echo "SLURM_CPUS_PER_TASK=$cpus; export SLURM_CPUS_PER_TASK"
    [ -z "$each" ] || echo "SLURM_NTASKS_PER_NODE=$each; export SLURM_NTASKS_PER_NODE"
    if [ -n "$byHost" ]; then
      echo "SLURM_NODEID=$((allNodes + node)) SLURM_LOCALID=$slot; export SLURM_NODEID SLURM_LOCALID"
      echo "SLURM_NODELIST=$list SLURM_STEP_NODELIST=$list SLURM_NNODES=$nodes SLURM_STEP_NUM_NODES=$nodes"
      echo "SLURM_TASKS_PER_NODE='$perNode' SLURM_STEP_TASKS_PER_NODE='$perNode'"
      echo "export SLURM_NODELIST SLURM_STEP_NODELIST SLURM_NNODES SLURM_STEP_NUM_NODES SLURM_TASKS_PER_NODE SLURM_STEP_TASKS_PER_NODE"
    fi
    if [ -n "$gpus" ] && [ "$here" -gt 1 ]; then
      echo "CUDA_VISIBLE_DEVICES=\$(echo \"\$CUDA_VISIBLE_DEVICES\" | cut -d, -f$((slot * gpus + 1))-$((slot * gpus + gpus))); export CUDA_VISIBLE_DEVICES"
    fi
    echo "cd $(quote "$dir") || exit 1"
  } >"$kept/text.$total"
  if [ -z "$several" ]; then
    echo "exec$command" >>"$kept/text.$total"
  else
    [ -s "$kept/program.$total" ] || fail "--multi-prog: rank $total has no program"
    cat "$kept/program.$total" >>"$kept/text.$total"
  fi
}

# Each component has options and a command. The next component follows after a colon.
mixed=0
for word in "$@"; do [ "$word" != : ] || mixed=1; done
while :; do
  tasks='' nodes='' each='' names='' without='' skip='' cpus='' exports=ALL dir=$PWD gpus=${SLURM_GPUS_PER_TASK:-} several=''
  while [ $# -gt 0 ]; do
    word=$1 value='' has='' more=''
    case $word in
    --) shift && break ;;
    --*=*) value=${word#*=} has=1 word=${word%%=*} && name=$(full "${word#--}") || exit 1 ;;
    --*) name=$(full "${word#--}") || exit 1 ;;
    -?*)
      more=${word#-?} word=${word%"$more"} name=$(letter "${word#-}")
      [ -n "$name" ] || fail "$word: is not supported"
      case $name in *= | *'?') [ -z "$more" ] || { value=$more has=1 more=''; } ;; esac
      ;;
    *) break ;;
    esac
    shift
    case $name in
    *=) [ -n "$has" ] || { [ $# -gt 0 ] || fail "$word: requires a value"; value=$1; shift; } ;;
    *'?') ;;
    *) [ -z "$has" ] || fail "$word: has no value" ;;
    esac
    option "${name%[=?]}" "$value"
    [ -z "$more" ] || set -- "-$more" "$@"
  done
  command='' file=${1-}
  [ $# -gt 0 ] && [ "$1" != : ] || fail "a command is required"
  while [ $# -gt 0 ] && [ "$1" != : ]; do
    command="$command $(quote "$1")" && shift
  done
  variables >"$kept/vars.$component" || exit 1
  plan
  [ $# -gt 0 ] || break
  shift
done
[ "$limit" != 0 ] || limit=''

pids='' bad='' port='' secret=''
trap 'bad=1' TERM INT
if [ "$total" -gt 1 ] && [ "$mpi" != none ] && mkfifo "$kept/pmi" 2>/dev/null; then
  "$SYNAPSE_EXEC" --pmi "$spots" >"$kept/pmi" &
  servers=$!
  read -r port secret <"$kept/pmi" || echo "srun: warning: PMI did not start: a program of MPICH starts as single processes" >&2
fi
timer() { # ends the step after some seconds
  (
    exec >/dev/null 2>&1 </dev/null 4>&-
    trap 'kill "$sleeps"; exit' TERM
    sleep "$1" &
    sleeps=$!
    wait "$sleeps" && [ -d "$kept" ] && kill -TERM $$
  ) &
}
one() { # process, its place, its input, its component
  text="$(cat "$kept/vars.$4")
SLURM_STEP_ID=$step SLURM_STEPID=$step SLURM_STEP_NUM_TASKS=$total SLURM_NTASKS=$total SLURM_NPROCS=$total
export SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NUM_TASKS SLURM_NTASKS SLURM_NPROCS
unset PMI_FD PMI_PORT PMI_ID
${secret:+PMI_PORT=$SLURMD_NODENAME:$port PMI_ID=$((secret + $1)); export PMI_PORT PMI_ID}
$(cat "$kept/text.$1")"
  sh -c 'echo "$PPID"' >"$kept/pid.$1" # the process ID of this shell, which exec keeps
  case $2 in ":$SYNAPSE_RANK" | "$SLURMD_NODENAME") exec /bin/sh -c "$text" ;; esac
  reads=-q
  [ "$3" != none ] || reads=-n
  exec "$SYNAPSE_EXEC" $reads "$2" "$text"
}

# A caller such as Hydra may have closed the input.
if [ -e /proc/self/fd/0 ]; then exec 5<&0; else exec 5</dev/null; fi
process=0
while [ "$process" -lt "$total" ]; do
  { IFS= read -r place && IFS= read -r part && IFS= read -r out && IFS= read -r err && IFS= read -r in; } <"$kept/to.$process"
  (
    exec 4>&2 2>/dev/null # hides the messages of the shell about killed processes
    [ -z "$out" ] || exec >>"$out"
    if [ -n "$err" ]; then exec 4>>"$err"; elif [ -n "$out" ]; then exec 4>&1; fi
    case $in in none) ;; all) exec <&5 ;; *) exec <"$in" ;; esac
    exec 5<&-
    if [ -n "$label" ]; then
      { { (one "$process" "$place" "$in" "$part"); echo $? >"$kept/$process"; } 2>&1 >&3 | sed -u "s/^/$process: /" >&4; } 3>&1 |
        sed -u "s/^/$process: /"
    else
      (one "$process" "$place" "$in" "$part") 2>&4
      echo $? >"$kept/$process"
    fi
    rm -f "$kept/pid.$process"
    if [ -n "$limit" ] && mkdir "$kept/first" 2>/dev/null; then timer "$limit"; fi # the others get some more seconds
    [ -z "$strict" ] || [ "$(cat "$kept/$process")" = 0 ] || kill -TERM $$
  ) &
  pids="$pids $!" process=$((process + 1))
done
if [ -n "$until" ]; then
  timer "$until"
  timers=$!
fi
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
[ -n "$timers" ] && kill $timers 2>/dev/null
for pid in $pids; do wait "$pid"; done
process=0
while [ "$process" -lt "$total" ]; do
  got=$(cat "$kept/$process")
  [ "$got" = 0 ] || echo "srun: error: task $process: Exited with exit code $got" >&2
  [ "$got" -le "$code" ] || code=$got
  process=$((process + 1))
done
exit "$code"
