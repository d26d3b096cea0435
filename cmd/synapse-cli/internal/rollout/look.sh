# Prints what is on a machine, a line for each thing, and after the line `settings` the file of settings. It changes
# nothing. $2 is where the machine's key is, or will be.
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
