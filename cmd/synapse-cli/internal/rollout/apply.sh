# Installs the files that exist in the folder $1: the package, the agent's settings, and its join token. Then it waits
# up to $2 seconds until the agent has joined the scheduler. The last printed line is the agent's version.
PATH=$PATH:/usr/sbin:/sbin
set -eu
cd "$1"

# loud runs a program, and prints its output only after a failure.
loud() {
	"$@" >said 2>&1 </dev/null || {
		tail -n 20 said >&2
		exit 1
	}
}

agent=$(systemctl show -p MainPID --value synapse-node 2>/dev/null || true)
if [ -e synapse.deb ]; then
	export DEBIAN_FRONTEND=noninteractive
	if command -v apt-get >/dev/null; then
		chmod 755 . && chmod 644 synapse.deb # apt reads it as another user
		# Without a mirror, recommended packages may be unavailable; the agent works without them.
		how="-y --allow-downgrades -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold ./synapse.deb"
		apt-get install $how >said 2>&1 </dev/null || loud apt-get install --no-install-recommends $how
		chmod 700 .
	else
		loud dpkg --force-confold -i synapse.deb
	fi
elif [ -e synapse.rpm ]; then
	loud rpm -U --oldpackage synapse.rpm
fi

restart=
if [ -e token ]; then
	cp token /etc/synapse/token.new
	mv /etc/synapse/token.new /etc/synapse/token
	restart=yes
fi
if [ -e node.yaml ]; then
	loud synapse-node config check --config node.yaml
	if [ -e /etc/synapse/node.yaml ]; then
		cp -p /etc/synapse/node.yaml /etc/synapse/node.yaml.before
	fi
	cp node.yaml /etc/synapse/node.yaml.new
	chmod 644 /etc/synapse/node.yaml.new
	mv /etc/synapse/node.yaml.new /etc/synapse/node.yaml
	restart=yes
fi

loud systemctl enable synapse-node
# An upgrade of the package has already restarted the agent, but with the old settings.
if [ -n "$restart" ] || [ "${agent:-0}" = "$(systemctl show -p MainPID --value synapse-node)" ]; then
	systemctl restart synapse-node >said 2>&1 || {
		cat said >&2
		journalctl --no-pager -q -o cat -u synapse-node -n 3 >&2
		exit 1
	}
fi
# The scheduler's view of the node may still be about the old agent, so the log of the new agent is read.
says() {
	journalctl -q --no-pager -b -o cat "$@" _SYSTEMD_UNIT=synapse-node.service \
		"_PID=$(systemctl show -p MainPID --value synapse-node)"
}
left=$(($2 * 5))
until says | grep -q 'Welcome to Synapse'; do
	if [ $((left -= 1)) -lt 0 ]; then
		echo "its agent was not welcome within $2 s, and says:" >&2
		says -n 2 >&2
		exit 1
	fi
	sleep 0.2
done
echo "version $(synapse-node --version | sed 's/^[^ ]* //')"
