#!/usr/bin/env bash
# Kills a run of make with 16 parts, with all of its processes, at random moments, runs it
# again to the end, and compares the posterior with one that was not killed, byte for byte.
#
#	studies/shards/kill.sh [KILLS [ARGUMENTS OF FIT]]
#
# It needs gpexplain on the PATH, and make.
set -euo pipefail
kills=${1:-50}
fit=${2:---data digits:4000,200 --inducing 60}
makefile=$(cd "$(dirname "$0")/../.." && pwd)/doc/examples/shards/Makefile
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() { make -s -j 4 -f "$makefile" PARTS=16 FIT="$fit" OUT=all.gp >log 2>&1; }
mkdir "$dir/whole" "$dir/killed"
cd "$dir/whole"
start=$(date +%s%N)
run
took=$((($(date +%s%N) - start) / 1000000))
cd "$dir/killed"
done=0
for ((k = 0; k < kills; k++)); do
	setsid make -s -j 4 -f "$makefile" PARTS=16 FIT="$fit" OUT=all.gp >log 2>&1 &
	pid=$!
	sleep "$(awk -v ms=$((RANDOM * took / 32768 / 4 + 10)) 'BEGIN { print ms / 1000 }')"
	kill -9 -- "-$pid" 2>/dev/null || true
	wait "$pid" 2>/dev/null || true
	if [ -e all.gp ]; then # it was done: begin again
		cmp all.gp ../whole/all.gp
		done=$((done + 1))
		rm -f all.gp part*.sums z.gp
	fi
done
run
# The posterior remembers where model and data are, which are the same for both.
cmp all.gp ../whole/all.gp
echo "killed $kills times at random moments of $took ms, $done times after the end: the same $(stat -c %s all.gp) bytes"
ls -A | grep -v -E '^(all\.gp|z\.gp|part[0-9]+\.sums|log|\..*)$' && { echo "something is left"; exit 1; } || true
