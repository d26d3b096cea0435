#!/bin/sh
# Creates a root file system with one static busybox, the smallest image for a test of carapace. It downloads nothing.
# Usage: busybox-rootfs.sh DIRECTORY [BUSYBOX]
set -eu

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
	echo "usage: $0 DIRECTORY [BUSYBOX]" >&2
	exit 2
fi
root=$1
busybox=${2:-}
if [ -z "$busybox" ]; then
	for candidate in /bin/busybox /usr/bin/busybox; do
		if [ -x "$candidate" ]; then
			busybox=$candidate
			break
		fi
	done
fi
if [ -z "$busybox" ] || [ ! -x "$busybox" ]; then
	echo "$0: no busybox found; install a static one (Debian: apt-get install busybox-static) or pass its path" >&2
	exit 1
fi
# A dynamic busybox needs libraries, and the new root has none.
if ldd "$busybox" >/dev/null 2>&1; then
	echo "$0: $busybox is dynamically linked; a static one is needed (Debian and Ubuntu: busybox-static)" >&2
	exit 1
fi
if [ -e "$root" ] && [ -n "$(ls -A "$root")" ]; then
	echo "$0: $root exists and is not empty" >&2
	exit 1
fi

for folder in bin dev etc home proc root run sys tmp usr/bin var/tmp; do
	mkdir -p "$root/$folder"
done
chmod 1777 "$root/tmp" "$root/var/tmp"
chmod 700 "$root/root"
cp "$busybox" "$root/bin/busybox"
chmod 755 "$root/bin/busybox"
for applet in $("$busybox" --list); do
	[ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
done
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n' >"$root/etc/group"
echo "$root: try  carapace run --rootfs $root -- /bin/sh -c 'echo hello'"
