#!/usr/bin/env bash
# What `make run` shows: a real cluster of separate processes on this machine, on its embedded store, from the first job to
# a machine's death and back. It takes the folder of Synapse's programs, leaves nothing behind, and ends 0 only if all that
# it shows has really happened.
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
	# What was killed could not tidy up after itself: the next agent would, and here none follows.
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
	printf '\nthe tour went wrong: %s\n' "$*" >&2
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
# submit FILE-OR-FLAGS… prints the id alone.
submit() { synapse-cli submit -q "$@"; }

say "A scheduler and four machines of 8 GPUs in two racks, each a process of its own"
synapse-cli up --nodes 4 --racks 2 --gpus 8 --data-dir "$dir/cluster" >"$dir/ready" 2>"$dir/log" &
cluster=$!
until_so 60 "the cluster did not come up" grep -q '^ready:' "$dir/ready"
cat "$dir/ready"
export SYNAPSE_CONFIG=$dir/cluster/cli.yaml
show get nodes
grep -om1 'Driver .*' "$dir/log" || fail "no node said what its tasks run in"

say "A gang of four that adds up numbers around a ring of all its members, and checks the sum"
# The program is in no place that every task sees (a container has a /tmp of its own, and nobody may look into somebody
# else's home), so it is mounted where it lies.
cp "$bin/synapse-allreduce" "$dir/"
program=$dir/synapse-allreduce
sed "s#\./bin/synapse-allreduce#$program#; s#{gpu: 1,#{gpu: 8,#; s#patience: 10s#patience: 1s#" "$(dirname "$0")/allreduce.yaml" >"$dir/allreduce.yaml"
echo "  mounts: [{source: $program, target: $program}]" >>"$dir/allreduce.yaml"
job=$(submit "$dir/allreduce.yaml")
show logs -f "$job"
show wait "$job"
show describe job "$job"

say "A task asks its own cluster what runs there, and is told nothing: it has no key to it, and none in reach"
cp "$bin/synapse-cli" "$dir/"
address=$(awk '$1 == "server:" { print $2 }' "$dir/cluster/cli.yaml")
stranger=$(submit --name stranger --cpu 1 --image host --mount "$dir/synapse-cli:$dir/synapse-cli" -- \
	"$dir/synapse-cli" --server "$address" --retry 0 get jobs)
show wait "$stranger" && fail "a task without a key was let in"
show logs "$stranger"

say "Two machines taken whole by a gang; a gang that needs all four has to wait, and is told why"
pair=$(submit --name pair --replicas 2 --gpu 8 --time-limit 20m --image host -- /bin/sleep 600)
until_so 20 "the pair does not run" phase_is "$pair" running
big=$(submit --name big --replicas 4 --gpu 8 --image host -- /bin/true)
kept() { synapse-cli explain "$big" | grep -q ' are kept for it'; }
until_so 20 "nothing is kept for the big gang" kept
show get jobs
show explain "$big"

say "All four are kept for it; a small job that says how long it takes is lent a GPU meanwhile"
small=$(submit --name small --gpu 1 --time-limit 1m --image host -- /bin/sh -c 'echo "one GPU was free: $CUDA_VISIBLE_DEVICES"')
show wait --timeout 1m "$small" || fail "the small job did not pass"
show logs "$small"
phase_is "$big" queued || fail "the big gang should still wait"

say "A machine of the running gang dies: agent, supervisors, tasks. Ten seconds later it counts as dead, and the gang runs elsewhere"
victim=$(synapse-cli describe job "$pair" | awk '/^Ranks/ { ranks = 1 } ranks && $1 == "0" { print $2 }')
[[ -n $victim ]] || fail "rank 0 of the pair is nowhere"
# Its processes, by the folder that each of them names; by pid, the agent first, as a power loss would spare none to tell.
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

say "The pair is cancelled; the big gang still lacks a machine, and the answer has changed with the room"
show cancel "$pair"
until_so 20 "the pair was not cancelled" phase_is "$pair" cancelled
show explain "$big"
show cancel "$big"
show get jobs
say "That was Synapse. \`synapse-cli up\` gives you such a cluster to play with, and \`synapse-cli web\` shows it in a browser."
