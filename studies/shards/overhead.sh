#!/usr/bin/env bash
# Compares a fit in one process with the same fit in 8 parts and their merger, and with one in
# 64 parts by Apache Beam's Prism: CPU time, time that passes with as many processes at once
# as there are cores, and what all predict.
#
#	studies/shards/overhead.sh ARGUMENTS OF FIT
#	studies/shards/overhead.sh --model lenet.onnx --data mnist --train-count 55000 --inducing 200
#
# It needs gpexplain on the PATH, and gpexplain-beam, without which that is left out.
set -euo pipefail
dir=$(mktemp -d)
trap '[ $? = 0 ] || cat "$dir/notes" >&2; rm -rf "$dir"' EXIT
cores=$(nproc)
parts() {
	gpexplain fit --quiet --select-only "$@" -o "$dir/z.gp" >/dev/null 2>"$dir/notes"
	# one process a core, so that both runs have the same cores
	seq 0 7 | GOMAXPROCS=1 xargs -P "$cores" -I{} gpexplain fit --quiet --inducing-file "$dir/z.gp" --shard {}/8 -o "$dir/part{}.sums" >/dev/null 2>>"$dir/notes"
	gpexplain merge --quiet "$dir"/part*.sums -o "$dir/all.gp" >/dev/null 2>>"$dir/notes"
}
prism() {
	gpexplain fit --quiet --select-only "$@" -o "$dir/z.gp" >/dev/null 2>"$dir/notes"
	gpexplain-beam fit --inducing-file "$dir/z.gp" --parts 64 -o "$dir/beam.gp" >/dev/null 2>>"$dir/notes"
}
beam=$(command -v gpexplain-beam || true)
TIMEFORMAT="%R %U %S"
for run in $(seq "${RUNS:-3}"); do # alternating, as the machine may be shared
	one=$({ time gpexplain fit --quiet --method nystrom "$@" -o "$dir/one.gp" >/dev/null 2>"$dir/notes"; } 2>&1)
	all=$({ time parts "$@"; } 2>&1)
	by=
	[ -z "$beam" ] || by=$({ time prism "$@"; } 2>&1)
	awk -v run="$run" '{ e[NR] = $1; c[NR] = $2 + $3 }
		function beside(what, i) { printf "; %s %.1f s, CPU %.1f s: %+.1f %% elapsed, %+.1f %% CPU", what, e[i], c[i], 100 * (e[i] / e[1] - 1), 100 * (c[i] / c[1] - 1) }
		END { printf "run %d: one process %.1f s, CPU %.1f s", run, e[1], c[1]; beside("8 parts", 2); if (e[3]) beside("64 parts by Prism", 3); print "" }' <<<"$one
$all
$by"
done
for f in one all ${beam:+beam}; do gpexplain predict --quiet --posterior "$dir/$f.gp" --index "${INDEX:-24}"; done
