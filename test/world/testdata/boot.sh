#!/bin/bash
# Boots a test host: systemd is the first process of a Debian root, with its own cgroups, network and process IDs.
# /proc/sys belongs to the real host, so only its network part is writable.
#
#   boot.sh ROOT NAME      ends with that process, whose parent is `unshare` below
set -eu
root=$1 name=$2

if [[ ! ${BOOT_INSIDE:-} ]]; then
	for folder in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[[ -e $folder/cgroup.procs ]] || continue
		mkdir "$folder/$name"
		if [[ -e $folder/$name/cpuset.cpus ]]; then
			cat "$folder/cpuset.cpus" >"$folder/$name/cpuset.cpus"
			cat "$folder/cpuset.mems" >"$folder/$name/cpuset.mems"
		fi
		echo $$ >"$folder/$name/cgroup.procs"
		[[ $folder != /sys/fs/cgroup ]] || break
	done
	export BOOT_INSIDE=1
	exec unshare --mount --net --uts --ipc --cgroup --pid --fork --kill-child bash "$0" "$@"
fi

mount --make-rprivate /
mount --bind "$root" "$root"
cd "$root"
hostname "$name"
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount --bind proc/sys/net proc/sys/net
mount -o remount,bind,ro proc/sys
mount -t sysfs sysfs sys
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
for device in null:3 zero:5 full:7 random:8 urandom:9; do
	mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}"
done
mknod -m 666 dev/tty c 5 0
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for stream in 0:stdin 1:stdout 2:stderr; do
	ln -s "fd/${stream%:*}" "dev/${stream#*:}"
done
if [[ $(cat /proc/self/cgroup) == 0::* ]]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
	while IFS=: read -r _ controllers _; do
		folder=sys/fs/cgroup/${controllers#name=}
		case $controllers in
		'') folder=sys/fs/cgroup/unified kind=cgroup2 options=rw ;;
		name=*) kind=cgroup options=none,$controllers ;;
		*) kind=cgroup options=$controllers ;;
		esac
		mkdir "$folder"
		mount -t "$kind" -o "$options" cgroup "$folder"
	done </proc/self/cgroup
fi
mkdir .before
pivot_root . .before
umount -l .before
rmdir .before
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --show-status=no
