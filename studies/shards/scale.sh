#!/usr/bin/env bash
# Measures the constants of the cost model of doc/scale.md with one core a process, and compares
# what the model predicts for 1, 2 and 4 processes with a run of each: CPU time, and where the
# machine is idle, the time that passes.
#
#	studies/shards/scale.sh ROWS ARGUMENTS OF FIT
#	studies/shards/scale.sh 3000 --model lenet.onnx --data mnist --inducing 50
#
# It needs gpexplain on the PATH.
set -euo pipefail
rows=$1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export GOMAXPROCS=1
TIMEFORMAT="%R %U %S"
gpexplain fit --quiet --select-only --train-count "$rows" "$@" -o z.gp >/dev/null
# spent ROWS OF: seconds that passed and CPU seconds of one part of that many
spent() { { time gpexplain fit --quiet --inducing-file z.gp --shard "0/$1" -o part.sums >/dev/null; } 2>&1 | awk '{ print $1, $2 + $3 }'; }
read -r _ large < <(spent 2)
read -r _ small < <(spent 6)
cores=$(nproc)
# CPU = start + rows * each
read -r start each < <(awk -v l="$large" -v s="$small" -v n="$rows" 'BEGIN { e = (l - s) / (n / 2 - n / 6); f = s - e * n / 6; print (f > 0 ? f : 0), e }')
echo "constants: $start s to start, $(awk -v e="$each" 'BEGIN { print 1000 * e }') ms a row"
for p in 1 2 4; do
	predicted=$(awk -v f="$start" -v e="$each" -v n="$rows" -v p="$p" 'BEGIN { print p * f + n * e }')
	elapsed=$(awk -v c="$predicted" -v p="$p" -v k="$cores" 'BEGIN { print c / (p < k ? p : k) }')
	measured=$({ time { for ((i = 0; i < p; i++)); do gpexplain fit --quiet --inducing-file z.gp --shard "$i/$p" -o "part$i.sums" >/dev/null & done; wait; }; } 2>&1)
	echo "$p processes: CPU predicted $predicted s, measured $(awk '{ print $2 + $3 }' <<<"$measured") s; elapsed predicted $elapsed s on an idle machine of $cores cores, measured $(awk '{ print $1 }' <<<"$measured") s"
done
