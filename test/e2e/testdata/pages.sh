# The environment of the pages for TestPagesAreTyped: a separate host with the names and addresses of the pages, on which
# each block runs unchanged. $root is the repository, $lab a folder of the test. Before each block, `given PAGE HEADING`
# creates the files that its reader has. After it, `seen` checks effects that no exit code shows. `taken` passes a written
# file to the program that reads it.
set -meE -o pipefail
trap 'trap - ERR; echo "$at fails" >&2; tail -n 20 "$lab"/log/*.log >&2' ERR
export HOME=$lab/home
mkdir -p "$lab"/{log,home,pages,etc}
mount -t tmpfs none /srv
mount -t tmpfs none /var/lib
mount -t tmpfs none /var/backups
mount -t tmpfs none /usr/local/sbin
chmod 755 /srv /var/lib
cp -a /etc/. "$lab/etc" && mount --bind "$lab/etc" /etc
cp -r "$root/deploy/etc" /etc/synapse
echo "join: 10.0.0.7:9000" >>/etc/synapse/node.yaml
echo "10.0.0.7 head head1 head1.example.org" >>/etc/hosts
echo "10.0.0.8 head2" >>/etc/hosts
echo "10.0.0.9 head3" >>/etc/hosts
echo "alice:x:5001:5001::/:/bin/sh" >>/etc/passwd
for name in check-fabric page; do printf '#!/bin/sh\n' >/usr/local/sbin/$name && chmod 755 /usr/local/sbin/$name; done
ip link set lo up
for n in 7 8 9; do ip addr add 10.0.0.$n/32 dev lo; done

# await COMMAND... waits until the command succeeds.
await() {
	for _ in $(seq 600); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
	echo "$at: never: $*" >&2
	return 1
}

# Programs that keep running: the next block runs when they have printed that they are ready, as in another terminal.
begin() { # NAME WORDS COMMAND...
	local log=$lab/log/$1.log name=${1//-/_} words=$2
	shift 2
	command "$@" >"$log" 2>&1 &
	declare -g "$name=$!"
	await grep -qE "$words" "$log"
}
synapse-scheduler() {
	case ${1:-} in config | backup | restore) command synapse-scheduler "$@" ;; *)
		begin synapse-scheduler 'Synapse Master running on' synapse-scheduler "$@"
		ln -sf "$lab/log/synapse-scheduler.log" scheduler.log ;;
	esac
}
synapse-node() {
	case ${1:-} in config | doctor) command synapse-node "$@" ;; *) begin synapse-node 'Welcome to Synapse' synapse-node "$@" ;; esac
}
synapse-cli() {
	case $* in
	web | 'web --record '* | 'web --replay '*record)
		begin synapse-cli 'http://|until Ctrl-C' synapse-cli "$@"
		cat "$lab/log/synapse-cli.log"
		[[ ${2:-} != --record ]] || await test -s "$3"
		end INT synapse_cli ;;
	'login '*) sudo synapse-cli "$@" ;; # on another host than the admin's
	*) command synapse-cli "$@" ;;
	esac
}
end() { kill -"$1" "${!2}" && { wait "${!2}" || true; }; } # SIGNAL NAME

# Programs of others.
make() { command make -n -C "$root" "$@" >/dev/null; } # checks that the target exists; CI runs it
sudo() { env -u SYNAPSE_SERVER -u SYNAPSE_TLS "$@"; }
curl() { command curl --silent --show-error --fail "$@"; }
sacct() {
	echo 'JobID|Submit|Start|ElapsedRaw|Timelimit|State|AllocTRES|User|Partition'
	for n in $(seq 40); do
		echo "$n|2026-10-01T08:00:0$((n % 10))|2026-10-01T08:01:00|600|01:00:00|COMPLETED|cpu=8,gres/gpu=8,node=1|ann|gpu"
	done
}

# on PAGE starts a page in a folder with the cluster's keys and without settings.
on() {
	unset "${!SYNAPSE_@}"
	mkdir -p "$lab/pages/$1" && cd "$lab/pages/$1"
	[[ -z ${keys:-} ]] || { ln -s "$keys" keys && cp "$keys/admin/ca.pem" .; }
	admin
}
admin() { [[ -z ${keys:-} ]] || export SYNAPSE_SERVER=10.0.0.7:9000 SYNAPSE_TLS=$keys/admin; }

made_token() { command synapse-cli token list --no-headers | awk '/ ann / { id = $1 } END { print id }'; } # one token of ann

# over ends all jobs before their nodes, which would otherwise leave cgroups behind.
over() {
	on over
	local jobs
	jobs=$(command synapse-cli get jobs --no-headers | awk '{ print $1 }')
	for job in $jobs; do command synapse-cli cancel "$job" || true; done # some have ended
	for job in $jobs; do command synapse-cli wait "$job" || true; done   # each returns the job's code
}

# file PAGE PATH writes a file, and passes it to its program.
file() {
	mkdir -p "$(dirname "$2")"
	cat >"$2"
	taken "$1:$2" </dev/null
}

given() {
	case $1 in
	"docs/jobs/connect.md:Log in")
		synapse-cli login head1:9000 --tls keys/admin --name lab
		synapse-cli token create --role submitter --user bob --out ann.token # made_token finds ann's
		unset SYNAPSE_SERVER SYNAPSE_TLS ;;
	"docs/reference/metrics.md:The scheduler's port")
		[[ -n ${plain:-} ]] || begin plain 'Synapse Master running on' synapse-scheduler --listen 127.0.0.1:9000 --store memory --data-dir "$lab/plain" ;;
	"docs/operate/tls.md:From plaintext to TLS") mkdir other && cd other ;;
	"docs/operate/audit.md:Verify the log") # heads are logged at the end, and every minute
		end TERM synapse_scheduler && mv "$lab/log/synapse-scheduler.log" told.log
		synapse-scheduler --listen 10.0.0.7:9000 --tls keys/scheduler && mv told.log scheduler.log ;;
	"docs/operate/secrets.md:Submit a job with secrets")
		echo word >token.txt && echo key >key.pem && printf '#!/bin/sh\n' >train.sh && chmod 600 token.txt key.pem ;;
	docs/operate/backup.md:Restore) end TERM synapse_scheduler && mv /var/lib/synapse "$lab/old" ;;
	"docs/operate/web.md:Serve it from the scheduler")
		end TERM synapse_scheduler
		openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=head1 -addext subjectAltName=DNS:head1 -days 2 -out head1.pem -keyout head1-key.pem 2>/dev/null
		chmod 600 head1-key.pem ;;
	esac
}

seen() {
	case $1 in
	"docs/operate/run.md:Start a scheduler and a node")
		[[ -e /var/lib/synapse ]] || return 0
		synapse-cli get nodes --no-headers | grep -q ' up '
		end TERM synapse_node && end TERM synapse_scheduler && rm -rf /var/lib/synapse* ;;
	"docs/operate/users-and-tokens.md:Give a colleague access") rm -rf "$HOME/.config" ;; # ann has another home
	"docs/operate/tls.md:Start a cluster")
		keys=$PWD/keys && admin
		command synapse-cli get nodes --no-headers | grep -q '^n17 *up '
		synapse-cli token create --by keys/scheduler --uses 4 --out more.token
		for n in 1 2 3 4; do
			begin "n$n" 'Welcome to Synapse' synapse-node --join 10.0.0.7:9000 --token more.token --id n$n \
				--data-dir "$lab/n$n" --gpus 8 --cpus 32 --memory 256Gi
		done ;;
	"docs/operate/tls.md:Access on the scheduler's host")
		sudo synapse-cli whoami | grep -q "root, admin of cluster research, through the scheduler's socket on this host" ;;
	"docs/operate/tls.md:From plaintext to TLS") cd .. ;;
	docs/operate/backup.md:Restore) synapse-scheduler --listen 10.0.0.7:9000 --tls keys/scheduler ;;
	"docs/operate/web.md:Serve it from the scheduler") curl --cacert head1.pem https://head1:9000/ | grep -q '<html' ;;
	"docs/operate/web.md:Record and replay") grep -q '<script' monday/index.html ;;
	esac
}

taken() {
	case $1 in
	docs/operate/capacity.md:machines.csv) synapse-cli simulate --synthetic jobs=20 --cluster machines.csv ;;
	docs/jobs/connect.md:cli.yaml) env -u SYNAPSE_SERVER SYNAPSE_TLS="$keys/admin" SYNAPSE_CONFIG=cli.yaml synapse-cli get nodes | grep -q '^n1 ' ;;
	docs/operate/deploy.md:hosts.yaml) # each host has the package and a key
		printf '#!/bin/sh\ncat >/dev/null; printf "%%s\\n" "version 1" systemd active enabled keyed settings\n' >reach && chmod 755 reach
		synapse-cli deploy --hosts hosts.yaml --ssh ./reach --dry-run >hosts.txt
		[[ $(grep -c ' to do: writes settings$' hosts.txt) = 41 ]] ;;
	docs/operate/oidc.md:oidc.yaml)
		cp keys/admin/ca.pem /etc/synapse/issuer.pem
		synapse-scheduler config check --oidc oidc.yaml --tls keys/scheduler ;;
	docs/operate/rotate-keys.md:denied/denylist)
		cp -rn keys/scheduler/. denied
		begin denying 'Synapse Master running on' synapse-scheduler --listen 127.0.0.1:0 --store memory --data-dir "$lab/denying" --tls denied
		end TERM denying ;;
	docs/operate/monitoring.md:scheduler.yaml) echo word >/etc/synapse/chat.token && synapse-scheduler config check --config scheduler.yaml ;;
	docs/operate/scheduling-policy.md:scheduler.yaml) synapse-scheduler config check --config scheduler.yaml ;;
	docs/operate/health-checks.md:node.yaml) cat /etc/synapse/node.yaml node.yaml >whole.yaml && synapse-node config check --config whole.yaml ;;
	docs/explain/preemption.md:nlp.yaml)
		{ printf 'apiVersion: synapse/v1\nkind: Queues\ndefault: nlp\nqueues:\n' && cat nlp.yaml; } >queues.yaml
		synapse-cli apply -f queues.yaml --dry-run ;;
	docs/jobs/scripts-and-sweeps.md:sweep.sh) sh sweep.sh | grep -q '^index none' ;;
	docs/operate/queues.md:queues.yaml) synapse-cli apply -f queues.yaml --dry-run ;;
	docs/operate/node-policy.md:policy.yaml)
		mkdir -p /srv/{data,scratch,images} && sed -i 's#path: /#path: /srv/#' policy.yaml
		synapse-node config check --config /etc/synapse/node.yaml --job-policy policy.yaml ;;
	*) echo "$1 is read by no program" >&2 && return 1 ;;
	esac
}
