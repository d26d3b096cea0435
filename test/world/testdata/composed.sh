#!/bin/bash
# Runs the container of a compose file's scheduler, and a node next to it that joins and works. It runs in a separate
# network, in which no other process uses the port.
#
#   composed.sh FOLDER UID      FOLDER has the container's config.json and root, and gets the mounted folders
set -eu
cd "$1"
user=$2 name=$(basename "$1") PATH=$1/root/usr/bin:$PATH HOME=$1
ip link set lo up
agent=
over() {
	[[ -z $agent ]] || kill -9 "$agent" || true
	runc --root "$PWD/runc" delete -f "$name" || true
	for state in machine/carapace; do
		[[ ! -d $state ]] || carapace gc --state-dir "$state" >/dev/null || true
	done
}
trap over EXIT

# As the user who created the folders.
mkdir data
synapse-cli init keys
chown -R "$user:$user" data keys/scheduler
mkdir -p root/proc root/dev root/tmp root/keys root/data

container() {
	runc --root "$PWD/runc" run -d "$name" >scheduler.log 2>&1
	for _ in {1..300}; do
		grep -q 'Synapse Master running' scheduler.log && return
		sleep 0.1
	done
	cat scheduler.log
	exit 1
}
export SYNAPSE_SERVER=127.0.0.1:9000 SYNAPSE_TLS=$PWD/keys/admin
container
synapse-cli token create --by keys/scheduler --node-name n1 --out token
synapse-node --join 127.0.0.1:9000 --tls machine/tls --token token --data-dir machine --driver process --gpus 0 \
	--address 127.0.0.1 2>agent.log &
agent=$!
until synapse-cli get nodes | grep -q ' up '; do
	kill -0 "$agent" || { cat agent.log && exit 1; }
	sleep 0.1
done
mkfifo go-on && chmod 644 go-on
job=$(synapse-cli submit -q --cpu 1 --image host -- sh -c "read w <$PWD/go-on; echo it ran on \$w")
until synapse-cli get job "$job" | grep -q ' running '; do
	kill -0 "$agent" || { cat agent.log && exit 1; }
	sleep 0.1
done

runc --root "$PWD/runc" kill "$name" TERM
for _ in {1..300}; do
	[[ $(runc --root "$PWD/runc" state "$name") != *'"status": "stopped"'* ]] || break
	sleep 0.1
done
runc --root "$PWD/runc" delete "$name"
container
echo "through both" >go-on
synapse-cli wait "$job" --timeout 60s
synapse-cli logs "$job"
