#!/usr/bin/env bash
# Installs the named programs, which some tests need, if it runs as root on a Debian host. Otherwise it prints the missing
# ones. It fails only for programs after --must. Tests that need the others are skipped by name.
set -euo pipefail

must=0
if [[ ${1:-} == --must ]]; then
	must=1
	shift
fi

# there NAME reports whether a program, or a library, can be used.
there() {
	case $1 in
	postgresql) compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null ;;
	torch) /usr/bin/python3 -c 'import torch' 2>/dev/null ;;
	*) command -v "$1" >/dev/null ;;
	esac
}

# package NAME prints the packages that contain a program.
package() {
	case $1 in
	busybox) echo busybox-static ;;
	gcc) echo gcc libc6-dev ;;
	ip) echo iproute2 ;;
	chromium) echo chromium fonts-dejavu-core ;;
	mksquashfs) echo squashfs-tools ;;
	torch) echo python3-torch ;;
	mpicc.openmpi) echo gcc libc6-dev openmpi-bin libopenmpi-dev ;;
	mpicc.mpich) echo gcc libc6-dev mpich libmpich-dev ;;
	nodeset) echo clustershell ;;
	*) echo "$1" ;;
	esac
}

missing=()
for name in "$@"; do
	there "$name" || missing+=("$name")
done
((${#missing[@]} > 0)) || exit 0

if [[ $(id -u) != 0 ]] || ! command -v apt-get >/dev/null; then
	echo "not installed here: ${missing[*]}" >&2
	((must == 0)) || { echo "install them and run again" >&2; exit 1; }
	echo "tests that need them are skipped, each by name" >&2
	exit 0
fi
packages=()
for name in "${missing[@]}"; do
	# The tests create their own servers, so the package need not.
	if [[ $name == postgresql && ! -e /etc/postgresql-common/createcluster.conf ]]; then
		mkdir -p /etc/postgresql-common
		echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
	fi
	read -ra more <<<"$(package "$name")"
	packages+=("${more[@]}")
done
install() { DEBIAN_FRONTEND=noninteractive apt-get install -qqy --no-install-recommends "${packages[@]}" >/dev/null; }
if ! { apt-get update -qq && install; }; then
	echo "could not install: ${packages[*]}" >&2
	((must == 0)) || exit 1
	echo "tests that need them are skipped, each by name" >&2
fi
