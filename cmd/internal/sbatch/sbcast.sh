#!/bin/sh
# Synapse's sbcast inside an sbatch job. It copies a file of the first node to all tasks of the job.
fail() {
  echo "sbcast: error: $1" >&2
  exit 1
}
quote() { printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")"; }
force=''
while [ $# -gt 0 ]; do
  case $1 in
  --) shift && break ;;
  -f | --force) force=1 ;;
  -p | --preserve | -v | --verbose | -C | --compress | --compress=* | --fanout=* | --size=* | --timeout=*) ;; # all nodes at once
  -F | -s | -t) [ $# -gt 1 ] || fail "$1: requires a value"; shift ;;
  -F?* | -s?* | -t?*) ;;
  -j | --jobid) [ "$2" = "$SLURM_JOB_ID" ] || fail "$1 $2: sbcast copies only in its own job"; shift ;;
  --jobid=*) [ "${1#*=}" = "$SLURM_JOB_ID" ] || fail "$1: sbcast copies only in its own job" ;;
  -*) fail "$1: is not supported" ;;
  *) break ;;
  esac
  shift
done
[ $# = 2 ] || fail "write sbcast SOURCE DEST"
[ -f "$1" ] && [ -r "$1" ] || fail "$1: is not a readable file on $SYNAPSE_NODE"
case $2 in /*) to=$2 ;; *) to=$PWD/$2 ;; esac
mode=644
[ ! -x "$1" ] || mode=755
to=$(quote "$to")
# A reader never sees a part of the file.
text="[ -n '$force' ] || [ ! -e $to ] || { echo \"sbcast: error: $to exists on \$SYNAPSE_NODE: use --force\" >&2; exit 1; }
cat >$to.sbcast.$$ && chmod $mode $to.sbcast.$$ && mv -f $to.sbcast.$$ $to || { rm -f $to.sbcast.$$; exit 1; }"
pids='' rank=0 bad=''
while [ "$rank" -lt "$SYNAPSE_WORLD_SIZE" ]; do
  if [ "$rank" = "$SYNAPSE_RANK" ]; then
    [ "$1" -ef "$2" ] || /bin/sh -c "$text" <"$1" || bad=1
  else
    "$SYNAPSE_EXEC" ":$rank" "$text" <"$1" &
    pids="$pids $!"
  fi
  rank=$((rank + 1))
done
for pid in $pids; do wait "$pid" || bad=1; done
[ -z "$bad" ] || fail "$2: the file was not copied to all nodes"
