#!/usr/bin/env bash
# Runs the README's two commands, `make run` and `make test`, from a clean clone on machines of several kinds, all made of this
# one: a fresh Debian root, root with no more than a container engine leaves it, a user without rights, and the machine as it
# is. What works in one place only is what a newcomer meets first elsewhere. With --short only the packages that need rights
# are tested. Everything lives in one folder and in mount namespaces of its own, and is gone at the end.
#
#   tools/places.sh [--short] [chroot|engine|user|here]...
set -euo pipefail
cd "$(dirname "$0")/.."

# What a container engine leaves to root unless it is told otherwise.
engine_rights=chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap
# A user whom no machine has.
user_id=61873

short=0
places=()
for word in "$@"; do
	case $word in
	--short) short=1 ;;
	chroot | engine | user | here) places+=("$word") ;;
	*)
		echo "tools/places.sh: no place is called $word: chroot, engine, user, here" >&2
		exit 2
		;;
	esac
done
((${#places[@]})) || places=(chroot engine user here)

# in_namespace PLACE … is this script again, in a mount namespace of its own: the mounts go with it.
if [[ ${PLACES_INSIDE:-} ]]; then
	folder=$PLACES_FOLDER command=$PLACES_COMMAND
else
	if [[ $(id -u) != 0 && "${places[*]}" != here ]]; then
		echo "make places needs root to make the places; PLACE=here tests this machine as it is" >&2
		exit 1
	fi
	folder=$(mktemp -d "${TMPDIR:-/tmp}/synapse-places-XXXXXX")
	chmod 755 "$folder"
	trap 'rm -rf --one-file-system "$folder"' EXIT
	command='make run && make test'
	((short == 0)) || command='make test PACKAGES="./runtime/... ./cmd/... ./test/e2e"'
	git clone -q . "$folder/clone"
fi

modules=$(go env GOMODCACHE)
built=$(go env GOCACHE)
goroot=$(go env GOROOT)

# keep copies the clone for one place, so that none finds what another built.
keep() { cp -a "$folder/clone" "$folder/$1"; }

in_here() { (cd "$folder/here" && bash -c "$command"); }

# engine: the rights of an engine's container, cgroups that can only be read, and only the devices that are always there.
in_engine() {
	local mount name dev=$folder/engine-dev
	while read -r mount; do
		mount -o remount,bind,ro "$mount"
	done < <(findmnt -Rlno TARGET /sys/fs/cgroup)
	mkdir "$dev"
	mount -t tmpfs -o mode=755 dev "$dev"
	for name in null zero full random urandom tty; do
		touch "$dev/$name"
		mount --bind "/dev/$name" "$dev/$name"
	done
	mkdir "$dev/shm" "$dev/pts"
	mount -t tmpfs -o mode=1777 shm "$dev/shm"
	mount --rbind /dev/pts "$dev/pts"
	ln -s pts/ptmx "$dev/ptmx"
	ln -s /proc/self/fd "$dev/fd"
	for name in stdin stdout stderr; do ln -s "/proc/self/fd/$(case $name in stdin) echo 0 ;; stdout) echo 1 ;; *) echo 2 ;; esac)" "$dev/$name"; done
	mount --rbind "$dev" /dev
	cd "$folder/engine"
	exec setpriv --bounding-set "-all,+${engine_rights//,/,+}" --inh-caps=-all bash -c "$command"
}

# user: somebody with a name and a home, and nothing else.
in_user() {
	local home=$folder/home
	mkdir -p "$home/modules" "$home/.cache"
	cp /etc/passwd "$folder/passwd"
	echo "newcomer:x:$user_id:$user_id::$home:/bin/bash" >>"$folder/passwd"
	mount --bind "$folder/passwd" /etc/passwd
	mount --bind "$modules" "$home/modules"
	# What is compiled already is taken over by links; what is new is the user's own.
	cp -al "$built" "$home/.cache/go-build" 2>/dev/null || mkdir -p "$home/.cache/go-build"
	find "$home/.cache" -type d -exec chown "$user_id:$user_id" {} + # Not the files: a link's owner is the original's.
	chown -R "$user_id:$user_id" "$folder/user"
	chown "$user_id:$user_id" "$home"
	cd "$folder/user"
	exec setpriv --reuid "$user_id" --regid "$user_id" --clear-groups --inh-caps=-all --bounding-set=-all \
		env HOME="$home" USER=newcomer LOGNAME=newcomer GOMODCACHE="$home/modules" GOCACHE="$home/.cache/go-build" \
		XDG_CACHE_HOME="$home/.cache" PATH="$goroot/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" bash -c "$command"
}

# chroot: a fresh Debian with make, git, certificates and Go, and nothing that this machine has installed.
in_chroot() {
	local root=$folder/root place
	mount --bind "$root" "$root" # Containers want a root that is a mount of its own.
	for place in proc sys dev; do
		mount --rbind "/$place" "$root/$place"
	done
	for place in "$goroot" "$modules" "$built"; do
		mkdir -p "$root$place"
		mount --bind "$place" "$root$place"
	done
	mv "$folder/chroot" "$root/src"
	exec chroot "$root" env -i HOME=/root PATH="$goroot/bin:/usr/sbin:/usr/bin:/sbin:/bin" GOMODCACHE="$modules" GOCACHE="$built" \
		GOFLAGS="$(go env GOFLAGS)" GOPROXY="$(go env GOPROXY)" bash -c "cd /src && $command"
}

# bootstrap makes the fresh root out of this machine's own sources of packages.
bootstrap() {
	local root=$folder/root suite mirror
	command -v debootstrap >/dev/null || tools/ensure.sh --must debootstrap
	# shellcheck disable=SC1091
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" | head -n 1)
	debootstrap --variant=minbase --include=make,git,ca-certificates "$suite" "$root" "$mirror" >"$folder/bootstrap.log" 2>&1 || {
		tail -n 20 "$folder/bootstrap.log" >&2
		return 1
	}
	rm -f "$root/etc/apt/sources.list"
	cp -a /etc/apt/. "$root/etc/apt/"
	cp -L /etc/resolv.conf "$root/etc/resolv.conf"
	cp -a /etc/ssl/certs/. "$root/etc/ssl/certs/"
}

if [[ ${PLACES_INSIDE:-} ]]; then
	"in_$PLACES_INSIDE"
fi
failed=()
for place in "${places[@]}"; do
	printf '\n== %s\n' "$place"
	keep "$place"
	began=$SECONDS ok=1
	case $place in
	here) in_here || ok=0 ;;
	chroot) bootstrap || ok=0 ;;&
	*) ((ok == 0)) || PLACES_INSIDE=$place PLACES_FOLDER=$folder PLACES_COMMAND=$command unshare --mount --propagation private "$PWD/tools/places.sh" "$place" || ok=0 ;;
	esac
	((ok)) || failed+=("$place")
	printf '== %s: %s after %ss\n' "$place" "$( ((ok)) && echo green || echo FAILED)" "$((SECONDS - began))"
done
((${#failed[@]} == 0)) || { echo "not green: ${failed[*]}" >&2; exit 1; }
