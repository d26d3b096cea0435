#!/usr/bin/env bash
# Runs every fuzz target for a while each: tools/fuzz.sh 20s. GO is the go command. A finding does not keep the other
# targets from running, but fails the script.
set -euo pipefail
cd "$(dirname "$0")/.."
time=$1 go=${GO:-go}

said=$(mktemp)
trap 'rm -f "$said"' EXIT

# A target may end with this error after its time without a finding, because Go's fuzzer uses two clocks. It writes and
# names every finding.
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
			echo "the time is over, and nothing was found"
		else
			found+=("$(dirname "$file") $target")
		fi
	fi
done < <(targets)
if [ ${#found[@]} -gt 0 ]; then
	printf 'found something: %s\n' "${found[@]}" >&2
	exit 1
fi
