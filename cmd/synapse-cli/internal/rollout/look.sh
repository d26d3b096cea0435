# Prints the state of a node, one line per property, and the settings file after the line `settings`. It changes
# nothing. $2 is the folder of the node's key, which may not exist yet.
PATH=$PATH:/usr/sbin:/sbin
echo "arch $(uname -m)"
if command -v dpkg-query >/dev/null; then
	echo "packages deb"
	dpkg-query -W -f '${db:Status-Status} ${Version}\n' synapse 2>/dev/null | sed -n 's/^installed /version /p'
elif command -v rpm >/dev/null; then
	echo "packages rpm"
	! version=$(rpm -q --qf '%{VERSION}-%{RELEASE}' synapse 2>/dev/null) || echo "version $version"
fi
[ ! -d /run/systemd/system ] || echo "systemd"
! systemctl is-active --quiet synapse-node 2>/dev/null || echo "active"
! systemctl is-enabled --quiet synapse-node 2>/dev/null || echo "enabled"
[ ! -e "$2" ] || echo "keyed"
echo "settings"
[ ! -e /etc/synapse/node.yaml ] || cat /etc/synapse/node.yaml
