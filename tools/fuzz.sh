#!/usr/bin/env bash
# Runs every fuzz target for a while each: tools/fuzz.sh 20s. GO is the go command. What one of them finds keeps none of
# the others from running, and fails the whole.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 go=${GO:-go}

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# A target whose time is over may end with this error though it found nothing: Go's fuzzer looks at two clocks at once.
# What it finds it writes down and names.
found_nothing() {
	grep -q '^ *context deadline exceeded$' "$said" && ! grep -qE 'Failing input|panic:' "$said"
}

targets() {
	grep -rHoE '^func Fuzz[A-Za-z0-9_]*' --include='*_test.go' --exclude-dir=tools --exclude-dir=testdata . | sort |
		sed 's/:func /:/'
}

found=()
while IFS=: read -r file target; do
	echo "$(dirname "$file") $target"
	if ! "$go" test "$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x </dev/null 2>&1 |
		tee "$said"; then
		if found_nothing; then
			echo "its time was over, and nothing was found"
		else
			found+=("$(dirname "$file") $target")
		fi
	fi
done < <(targets)
if [ ${#found[@]} -gt 0 ]; then
	printf 'found something: %s\n' "${found[@]}" >&2
	exit 1
fi
