#!/usr/bin/env bash
# The demo of `make run`: a real cluster of separate processes on this host, with the embedded store, from the first job to
# the recovery from a dead node. The argument is the folder of Synapse's programs. The demo removes all its files, and exits
# with 0 only if each step succeeded.
set -euo pipefail

bin=$(cd "$1" && pwd)
PATH="$bin:$PATH"
dir=$(mktemp -d "${TMPDIR:-/tmp}/synapse-tour-XXXXXX")
chmod 755 "$dir"
cluster=

cleanup() {
	if [[ -n $cluster ]] && kill -TERM "$cluster" 2>/dev/null; then
		wait "$cluster" || true
	fi
	# A killed agent leaves state behind. The next agent would remove it, but the demo starts no other.
	for state in "$dir"/cluster/*/carapace; do
		[[ -d $state ]] && carapace gc --state-dir "$state" >/dev/null
	done
	rm -rf "$dir"
}
trap cleanup EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$*" | if [[ -t 1 && -z ${NO_COLOR:-} ]]; then cat; else sed 's/\x1b\[[0-9;]*m//g'; fi; }
show() {
	printf '$ synapse-cli %s\n' "$*"
	synapse-cli "$@"
}
fail() {
	printf '\nthe demo failed: %s\n' "$*" >&2
	tail -n 40 "$dir/log" >&2
	exit 1
}

# until_so SECONDS WHAT COMMAND… waits until a command succeeds.
until_so() {
	local limit=$((SECONDS + $1)) what=$2
	shift 2
	until "$@"; do
		((SECONDS < limit)) || fail "$what"
		sleep 0.1
	done
}
phase_of() { synapse-cli get jobs --no-headers | awk -v job="$1" '$1 == job { print $3 }'; }
phase_is() { [[ $(phase_of "$1") == "$2" ]]; }
has_left() { ! synapse-cli describe job "$1" | awk '/^Ranks/ { ranks = 1 } ranks' | grep -qw "$2" && phase_is "$1" running; }
# submit FILE-OR-FLAGS… prints only the ID.
submit() { synapse-cli submit -q "$@"; }

say "Start a scheduler and four nodes with 8 GPUs each in two racks. Each is a separate process"
synapse-cli up --nodes 4 --racks 2 --gpus 8 --data-dir "$dir/cluster" --verbose >"$dir/ready" 2>"$dir/log" &
cluster=$!
until_so 60 "the cluster did not start" grep -q '^ready:' "$dir/ready"
cat "$dir/ready"
export SYNAPSE_CONFIG=$dir/cluster/cli.yaml
show get nodes
grep -om1 'Driver .*' "$dir/log" || fail "no node reported its driver"

say "Run a gang of four tasks that adds up numbers around a ring and checks the sum"
# Containers have a private /tmp and cannot read the homes of other users, so the program is mounted into the tasks.
cp "$bin/synapse-allreduce" "$dir/"
program=$dir/synapse-allreduce
sed "s#\./bin/synapse-allreduce#$program#; s#{gpu: 1,#{gpu: 8,#; s#patience: 10s#patience: 1s#" "$(dirname "$0")/allreduce.yaml" >"$dir/allreduce.yaml"
echo "  mounts: [{source: $program, target: $program}]" >>"$dir/allreduce.yaml"
job=$(submit "$dir/allreduce.yaml")
show logs -f "$job"
show wait "$job"
show describe job "$job"

say "A task tries to list the jobs of its own cluster. The scheduler refuses, because the task has no credential"
cp "$bin/synapse-cli" "$dir/"
address=$(awk '$1 == "server:" { print $2 }' "$dir/cluster/cli.yaml")
stranger=$(submit --name stranger --cpu 1 --image host --mount "$dir/synapse-cli:$dir/synapse-cli" -- \
	"$dir/synapse-cli" --server "$address" --retry 0 get jobs)
show wait "$stranger" && fail "a task without a credential could list the jobs"
show logs "$stranger"

say "A gang uses two whole nodes. A second gang needs all four nodes, so it waits. explain shows the reason"
pair=$(submit --name pair --replicas 2 --gpus-per-task 8 --time-limit 20m --image host -- /bin/sleep 600)
until_so 20 "the pair is not running" phase_is "$pair" running
big=$(submit --name big --replicas 4 --gpus-per-task 8 --image host -- /bin/true)
kept() { synapse-cli explain "$big" | grep -q 'for this job'; }
until_so 20 "no nodes are reserved for the big gang" kept
show get jobs
show explain "$big"

say "All four nodes are reserved for it. A small job with a short time limit is backfilled on one GPU"
small=$(submit --name small --gpu 1 --time-limit 1m --image host -- /bin/sh -c 'echo "one GPU was free: $CUDA_VISIBLE_DEVICES"')
show wait --timeout 1m "$small" || fail "the small job did not succeed"
show logs "$small"
phase_is "$big" queued || fail "the big gang should still wait"

say "A node of the running gang dies with all its processes. After 10 s, the node is declared dead, and the gang restarts on other nodes"
victim=$(synapse-cli describe job "$pair" | awk '/^Ranks/ { ranks = 1 } ranks && $1 == "0" { print $2 }')
[[ -n $victim ]] || fail "rank 0 of the pair is on no node"
# The folder in the command line identifies the processes. The agent is killed first, so that it cannot report the tasks.
processes_of() { for proc in /proc/[0-9]*; do { tr '\0' ' ' <"$proc/cmdline"; } 2>/dev/null | grep -qF -- "$1" && echo "${proc#/proc/}"; done || true; }
for name in "--data-dir $dir/cluster/$victim" "$dir/cluster/$victim"; do
	for pid in $(processes_of "$name"); do
		kill -KILL "$pid" 2>/dev/null || true
	done
done
until_so 30 "the gang did not recover" has_left "$pair" "$victim"
show get nodes
show describe job "$pair"
grep "REAPER" "$dir/log"

say "Cancel the pair. The big gang still lacks a node, and explain shows the new reason"
show cancel "$pair"
until_so 20 "the pair was not cancelled" phase_is "$pair" cancelled
show explain "$big"
show cancel "$big"
show get jobs
say "The demo is complete. \`synapse-cli up\` starts such a cluster, and \`synapse-cli web\` shows it in a browser."
