#!/bin/sh
# Synapse's scontrol, squeue and scancel inside an sbatch job. They show and change the job itself, which needs no token.
# Everything else is passed to the program of this name that is installed on this node, if there is one.
name=${0##*/}
fail() {
  echo "$name: error: $1" >&2
  exit 1
}
elsewhere() { # runs the installed program of this name
  rest=$PATH:
  while [ -n "$rest" ]; do
    dir=${rest%%:*} rest=${rest#*:}
    [ "$dir" != "${0%/*}" ] && [ -f "$dir/$name" ] && [ -x "$dir/$name" ] && exec "$dir/$name" "$@"
  done
  fail "$missing"
}
@LIST@
own() { # whether the words name only this job
  [ -n "$1" ] || return 1
  for id in $(echo "$1" | tr , ' '); do
    case $id in
    "$SLURM_JOB_ID" | "${SLURM_ARRAY_JOB_ID:-none}_${SLURM_ARRAY_TASK_ID:-none}") ;;
    *) return 1 ;;
    esac
  done
}
about() { echo "$job" | sed -n "s/^$1=//p"; }
state() { # the state in Slurm's words
  case $(about phase) in
  starting) echo CONFIGURING ;;
  running) echo RUNNING ;;
  stopping | closing) echo COMPLETING ;;
  *) echo PENDING ;;
  esac
}
clock() { # a duration of seconds
  [ "$1" -lt 86400 ] || printf '%d-' $(($1 / 86400))
  [ "$1" -lt 3600 ] || printf '%02d:' $(($1 / 3600 % 24))
  printf '%02d:%02d' $(($1 / 60 % 60)) $(($1 % 60))
}
limit() { [ "$(about limit)" = 0 ] && echo UNLIMITED || clock "$(about limit)"; }
at() { date -d "@$1" +%Y-%m-%dT%H:%M:%S 2>/dev/null || echo Unknown; }
field() { # the value of a letter of squeue
  case $1 in
  i) echo "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID}" | grep . || echo "$SLURM_JOB_ID" ;;
  A) echo "$SLURM_JOB_ID" ;;
  F) echo "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}" ;;
  K) echo "${SLURM_ARRAY_TASK_ID:-N/A}" ;;
  j) about name ;;
  u) about owner ;;
  P) about queue | grep . || echo all ;;
  a) about account | grep . || echo "(null)" ;;
  k) about comment | grep . || echo "(null)" ;;
  T) state ;;
  t) case $(state) in RUNNING) echo R ;; CONFIGURING) echo CF ;; COMPLETING) echo CG ;; *) echo PD ;; esac ;;
  D) echo "$SLURM_JOB_NUM_NODES" ;;
  N | R) echo "$SLURM_JOB_NODELIST" ;;
  r) echo None ;;
  l) limit ;;
  V) at "$(about submitted)" ;;
  *) return 1 ;;
  esac
}
print() { # one line in a format of squeue; what: "" for values, or 1 for heads
  text=$1 line=''
  while [ -n "$text" ]; do
    case $text in
    %%*) line=$line% text=${text#??} && continue ;;
    %*) ;;
    *) line=$line${text%"${text#?}"} text=${text#?} && continue ;;
    esac
    text=${text#%} width='' side=-
    case $text in .*) side='' text=${text#.} ;; esac
    while case $text in [0-9]*) ;; *) false ;; esac do width=$width${text%"${text#?}"} text=${text#?}; done
    letter=${text%"${text#?}"} text=${text#?}
    value=$(field "$letter") || return 1
    [ -z "$2" ] || value=$(heading "$letter")
    [ -z "$width" ] || value=$(printf "%$side$width.${width}s" "$value")
    line=$line$value
  done
  echo "$line"
}
heading() {
  case $1 in
  i | A) echo JOBID ;; F) echo ARRAY_JOB_ID ;; K) echo ARRAY_TASK_ID ;; j) echo NAME ;; u) echo USER ;; P) echo PARTITION ;;
  a) echo ACCOUNT ;; k) echo COMMENT ;; T) echo STATE ;; t) echo ST ;; D) echo NODES ;; N) echo NODELIST ;;
  R) echo "NODELIST(REASON)" ;; r) echo REASON ;; l) echo TIME_LIMIT ;; V) echo SUBMIT_TIME ;;
  esac
}
ask() { job=$("$SYNAPSE_EXEC" --job "$1" 2>&1) || fail "$(echo "$job" | sed 's/^synapse-exec: //')"; }

queue() {
  missing="in a job, only squeue of the job itself is available: squeue [-h] [-o FORMAT] -j $SLURM_JOB_ID"
  format='%.18i %.9P %.8j %.8u %.2t %.6D %R' jobs='' bare='' rest=1
  for word in "$@"; do
    case $rest in
    j) jobs=$jobs${jobs:+,}$word rest=1 && continue ;;
    o) format=$word rest=1 && continue ;;
    esac
    case $word in
    -h | --noheader) bare=1 ;;
    -j | --jobs | --job) rest=j ;;
    -j*) jobs=$jobs${jobs:+,}${word#-j} ;;
    --jobs=* | --job=*) jobs=$jobs${jobs:+,}${word#*=} ;;
    -o | --format) rest=o ;;
    -o*) format=${word#-o} ;;
    --format=*) format=${word#*=} ;;
    -ho) bare=1 rest=o ;;
    -hj) bare=1 rest=j ;;
    --me | -r | --array) ;;
    *) elsewhere "$@" ;;
    esac
  done
  own "$jobs" || elsewhere "$@"
  ask show
  line=$(print "$format" '') || elsewhere "$@"
  [ -n "$bare" ] || (print "$format" 1)
  echo "$line"
}

cancel() {
  missing="in a job, only scancel of the job itself is available: scancel $SLURM_JOB_ID"
  [ $# = 1 ] && own "$1" || elsewhere "$@"
  ask cancel
}

control() {
  missing="in a job, only these commands are available: scontrol show hostnames [NAMES], \
scontrol show job|requeue|requeuehold $SLURM_JOB_ID"
  case $1 in
  requeue | requeuehold)
    [ $# = 2 ] && own "$2" || elsewhere "$@"
    [ "$1" = requeue ] && ask requeue || ask requeue-hold
    ;;
  show)
    case $2 in
    hostnames)
      expand "${3:-$SLURM_JOB_NODELIST}" || fail "$3: is not a list of nodes"
      ;;
    job | jobs | jobid)
      shift 2
      while case $1 in -d | -dd | -o | --details | --oneliner) ;; *) false ;; esac do shift; done
      [ $# = 1 ] && own "$1" || elsewhere show job "$@"
      ask show
      echo "JobId=$SLURM_JOB_ID${SLURM_ARRAY_JOB_ID:+ ArrayJobId=$SLURM_ARRAY_JOB_ID ArrayTaskId=$SLURM_ARRAY_TASK_ID}" \
        "JobName=$(about name) UserId=$(about owner) Priority=$(about priority) Account=$(field a)" \
        "JobState=$(state) Reason=None Requeue=1 Restarts=$(about restarts) TimeLimit=$(limit)" \
        "SubmitTime=$(at "$(about submitted)") Partition=$(field P) NumNodes=$SLURM_JOB_NUM_NODES" \
        "NodeList=$SLURM_JOB_NODELIST BatchHost=${SLURM_JOB_NODELIST%%,*} NumTasks=$SLURM_NTASKS Comment=$(field k)"
      ;;
    *) elsewhere "$@" ;;
    esac
    ;;
  *) elsewhere "$@" ;;
  esac
}

case $name in
squeue) queue "$@" ;;
scancel) cancel "$@" ;;
*) control "$@" ;;
esac
