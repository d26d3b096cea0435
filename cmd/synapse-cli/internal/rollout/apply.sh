# Makes a machine what it should be, by the files in the folder $1 as far as they are there: the package, the agent's
# settings, its token. The last line printed says how long ago the agent was started, and its version.
PATH=$PATH:/usr/sbin:/sbin
set -eu
cd "$1"

# loud runs a program and shows what it said only if it failed.
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
		chmod 755 . && chmod 644 synapse.deb # apt reads it as a user of its own
		loud apt-get install -y --allow-downgrades -o DPkg::Lock::Timeout=120 -o Dpkg::Options::=--force-confold ./synapse.deb
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
# A package that replaced another has started its agent again already, and that with the settings of before.
if [ -n "$restart" ] || [ "${agent:-0}" = "$(systemctl show -p MainPID --value synapse-node)" ]; then
	systemctl restart synapse-node >said 2>&1 || {
		cat said >&2
		journalctl --no-pager -q -o cat -u synapse-node -n 3 >&2
		exit 1
	}
fi
# By the moment at which its process began: what the scheduler heard before that was said by the one before.
began=$(systemctl show -p ExecMainStartTimestampMonotonic --value synapse-node)
read -r now _ </proc/uptime
echo "started $((${now%.*}${now#*.} * 10 - began / 1000)) ms ago, version $(synapse-node --version | sed 's/^[^ ]* //')"
