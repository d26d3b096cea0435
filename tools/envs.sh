#!/usr/bin/env bash
# Runs the README's two commands, `make run` and `make test`, from a clean clone in several environments on this host: a
# fresh Debian root, root with the capabilities of a container engine, a user without rights, and the host as it is.
# --short runs only the short tests of packages that need rights, and leaves the host itself to `make test`. Everything
# is in one folder and in separate mount namespaces, and is removed at the end. An environment that leaves anything fails.
#
#   tools/envs.sh [--short] [chroot|engine|user|here]...
set -euo pipefail
cd "$(dirname "$0")/.."

# The default capabilities of root in a container engine.
engine_rights=chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap
# A user that no host has.
user_id=61873

short=0
environments=()
for word in "$@"; do
	case $word in
	--short) short=1 ;;
	chroot | engine | user | here) environments+=("$word") ;;
	*)
		echo "tools/envs.sh: unknown environment $word: chroot, engine, user, here" >&2
		exit 2
		;;
	esac
done
((${#environments[@]})) || environments=(chroot engine user)
((short || $# > 0)) || environments+=(here)

# The rest of this script runs more than once: as it was called, and once for each environment in a separate mount
# namespace, whose mounts end with it.
if [[ ${ENVS_INSIDE:-} ]]; then
	folder=$ENVS_FOLDER
else
	if [[ $(id -u) != 0 && "${environments[*]}" != here ]]; then
		echo "make test-envs needs root to make the environments; KIND=here tests this host as it is" >&2
		exit 1
	fi
	folder=$(mktemp -d "${TMPDIR:-/tmp}/synapse-envs-XXXXXX")
	chmod 755 "$folder"
	trap 'rm -rf --one-file-system "$folder"' EXIT
	git clone -q . "$folder/clone"
	# All environments share the downloaded and compiled files, and on a fresh host these do not exist yet.
	go mod download
	mkdir -p "$(go env GOMODCACHE)" "$(go env GOCACHE)"
fi

command='make run && make test'
# The packages that need rights, and their tests whose result may depend on the environment.
((${ENVS_SHORT:-0} == 0)) || command='make test PACKAGES="-short ./runtime/... ./cmd/carapace ./cmd/synapse-node ./test/e2e"'
modules=$(go env GOMODCACHE)
built=$(go env GOCACHE)
goroot=$(go env GOROOT)
# No environment reuses a test's cached result from another.
[[ ${ENVS_INSIDE:-} ]] || GOFLAGS="$(go env GOFLAGS) -count=1"
export GOFLAGS

# keep copies the clone for one environment, so that none finds the build of another.
keep() { cp -a "$folder/clone" "$folder/$1"; }

# seen ROOT prints the objects that an environment must not leave: mounts, networks, cgroups without a process, and files
# in the folders of programs. On the host as it is, others leave some too, so only the names of Synapse count.
seen() {
	local root=$1 group names=(-name '*')
	[[ $ENVS_INSIDE != here ]] || names=(-name 'synapse*' -o -name 'carapace*' -o -name 'Test*' -o -name 'syn[0-9]*')
	{
		findmnt -rno TARGET
		# If crun is killed while it creates a container, its empty file stays in /tmp.
		find "$root"/{tmp,var/tmp,var/lib,srv,dev/shm} -mindepth 1 -maxdepth 1 \( "${names[@]}" \) ! -name 'crun.*'
		find "$root/run" -mindepth 1 -maxdepth 2 \( -path '*/netns/*' -o -name 'synapse*' -o -name 'carapace*' \)
		find /sys/fs/cgroup -mindepth 2 -type d | while read -r group; do
			[[ $(cat "$group/cgroup.procs" 2>/dev/null || echo gone) ]] || stat -c '%n %i' "$group"
		done | grep -v '/synapse [0-9]*$' # an idle agent next to the tests may keep it
	} 2>/dev/null | sort || true # an object that disappears meanwhile does not count
}

# leaves_nothing ROOT COMMAND… runs a command and fails if a new object still exists ten seconds after its end.
leaves_nothing() {
	local root=$1 before left began
	shift
	before=$(seen "$root")
	"$@" || return 1
	began=$SECONDS
	left=$(comm -13 <(echo "$before") <(seen "$root"))
	while [[ $left ]]; do
		((SECONDS - began < 10)) || { printf 'left behind:\n%s\n' "$left" >&2; return 1; }
		sleep 0.5
		left=$(comm -12 <(echo "$left") <(seen "$root"))
	done
}

# here: the host as it is.
in_here() {
	cd "$folder/here"
	make installed
	leaves_nothing '' bash -c "$command"
}

# view ENVIRONMENT COVER… gives an environment its own temporary directories, hides further directories, and mounts its
# clone at the path of this tree, so that all environments share compiled files. Needed parts of hidden directories are
# mounted again.
view() {
	local environment=$1 cover path
	shift
	mount --bind "$folder" /mnt # a path to the hidden directories
	mkdir -p /mnt/shown/{modules,built,go}
	mount --bind "$modules" /mnt/shown/modules
	mount --bind "$built" /mnt/shown/built
	mount --bind "$goroot" /mnt/shown/go
	for cover in /tmp /var/tmp "$@"; do
		mkdir -p "/mnt/$environment-view$cover"
		mount --bind "/mnt/$environment-view$cover" "$cover"
	done
	chmod 1777 /tmp /var/tmp
	mount -t tmpfs -o mode=1777 shm /dev/shm
	for path in "$modules modules" "$built built" "$goroot go"; do
		mkdir -p "${path% *}"
		mount --bind "/mnt/shown/${path##* }" "${path% *}"
	done
	mkdir -p "$PWD"
	mount --bind "/mnt/$environment" "$PWD"
	cd "$PWD"
}

# engine: the capabilities of an engine's container, read-only cgroups, and only the standard devices.
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
	mount --rbind /dev/pts "$dev/pts"
	ln -s pts/ptmx "$dev/ptmx"
	ln -s /proc/self/fd "$dev/fd"
	for name in stdin stdout stderr; do ln -s "/proc/self/fd/$(case $name in stdin) echo 0 ;; stdout) echo 1 ;; *) echo 2 ;; esac)" "$dev/$name"; done
	mount --rbind "$dev" /dev
	view engine
	umount -R -l /mnt
	make installed
	leaves_nothing '' setpriv --bounding-set "-all,+${engine_rights//,/,+}" --inh-caps=-all bash -c "$command"
}

# closed prints the first directory above a path that other users may not pass through.
closed() {
	local at='' part parts
	IFS=/ read -ra parts <<<"$(dirname "${1#/}")"
	for part in "${parts[@]}"; do
		at+=/$part
		[[ $(stat -c %A "$at") == *[xt] ]] || { echo "$at"; return; }
	done
}

# user: a user with a name and a home, and nothing else.
in_user() {
	local home=/home/newcomer path covers=(/home)
	cp /etc/passwd "$folder/passwd"
	echo "newcomer:x:$user_id:$user_id::$home:/bin/bash" >>"$folder/passwd"
	mount --bind "$folder/passwd" /etc/passwd
	for path in "$PWD" "$modules" "$built" "$goroot"; do
		path=$(closed "$path")
		[[ -z $path || $path == /tmp* || $path == /home* || " ${covers[*]} " == *" $path "* ]] || covers+=("$path")
	done
	view user "${covers[@]}"
	mkdir -p "$home/.cache/go-build" /mnt/{above,work}
	# The user can read existing compiled files and add new ones. Without overlays everything is compiled again.
	mount -t overlay -o lowerdir=/mnt/shown/built,upperdir=/mnt/above,workdir=/mnt/work built "$home/.cache/go-build" || true
	chown "$user_id:$user_id" "$home" "$home/.cache" "$home/.cache/go-build" "$home"/.cache/go-build/*
	chown -R "$user_id:$user_id" "$PWD"
	umount -R -l /mnt
	leaves_nothing '' setpriv --reuid "$user_id" --regid "$user_id" --clear-groups --inh-caps=-all --bounding-set=-all \
		env HOME="$home" USER=newcomer LOGNAME=newcomer GOMODCACHE="$modules" GOCACHE="$home/.cache/go-build" \
		XDG_CACHE_HOME="$home/.cache" PATH="$goroot/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" bash -c "$command"
}

# chroot: a fresh Debian with make, git, certificates and Go, and nothing else that this host has installed.
in_chroot() {
	local root=$folder/root path
	mount --bind "$root" "$root" # Containers need a root that is a mount.
	for path in proc sys dev; do
		mount --rbind "/$path" "$root/$path"
	done
	mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
	for path in "$goroot" "$modules" "$built"; do
		mkdir -p "$root$path"
		mount --bind "$path" "$root$path"
	done
	mkdir -p "$root$PWD"
	mount --bind "$folder/chroot" "$root$PWD"
	there() {
		chroot "$root" env -i HOME=/root PATH="$goroot/bin:/usr/sbin:/usr/bin:/sbin:/bin" GOMODCACHE="$modules" GOCACHE="$built" \
			GOFLAGS="$GOFLAGS" GOPROXY="$(go env GOPROXY)" bash -c "cd '$PWD' && $1"
	}
	there 'make installed'
	leaves_nothing "$root" there "$command"
}

# bootstrap creates the fresh root from this host's package sources.
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

if [[ ${ENVS_INSIDE:-} ]]; then
	"in_$ENVS_INSIDE"
	exit
fi
failed=()
for environment in "${environments[@]}"; do
	printf '\n== %s\n' "$environment"
	keep "$environment"
	began=$SECONDS ok=1
	apart=(unshare --mount --propagation private)
	[[ $environment != here ]] || apart=()
	[[ $environment != chroot ]] || bootstrap || ok=0
	((ok == 0)) || ENVS_INSIDE=$environment ENVS_FOLDER=$folder ENVS_SHORT=$short "${apart[@]}" "$PWD/tools/envs.sh" "$environment" || ok=0
	((ok)) || failed+=("$environment")
	printf '== %s: %s after %ss\n' "$environment" "$( ((ok)) && echo green || echo FAILED)" "$((SECONDS - began))"
done
((${#failed[@]} == 0)) || { echo "failed: ${failed[*]}" >&2; exit 1; }
