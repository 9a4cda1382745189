#!/usr/bin/env bash
# Fits the posterior of a million synthetic digits in parts, with LeNet-5 and 200 inducing examples, explains a
# prediction by all of them, and audits them in parts, in DIR. Each step writes a file and is left out where its file
# is there, so that an interrupted run goes on. Prints the time, the CPU time and the peak memory of each; those of
# 250,000 digits and of a million, with two parts of its audit, are in doc/scale.md.
#
#	studies/shards/million.sh DIR [ROWS [PARTS [PROCESSES]]]
#
# The prior precision is that of a weight decay of 5e-4. It needs gpexplain on the PATH, and GNU time.
set -euo pipefail
mkdir -p "$1"
cd "$1"
rows=${2:-1000000} parts=${3:-16} processes=${4:-4}
# step FILE ARGUMENTS: what makes FILE, if it is not there
step() {
	local file=$1
	shift
	[ -e "$file" ] || env time -a -o times -f "$file: %e s, %U + %S s of processors, %M KiB" gpexplain "$@" --quiet >>log
}
export -f step
step net.onnx train --arch lenet5 --data "digits:$rows,10000" --prior-precision "$((rows / 2000))" --epochs 4 --batch 512 --lbfgs 0 --out net.onnx
step z.gp fit --model net.onnx --data "digits:$rows,10000" --at stated --select-only --inducing 200 -o z.gp
seq 0 $((parts - 1)) | GOMAXPROCS=1 xargs -P "$processes" -I{} bash -c "step part{}.sums fit --inducing-file z.gp --shard {}/$parts -o part{}.sums"
step all.gp merge part*.sums -o all.gp
seq 0 $((parts - 1)) | GOMAXPROCS=1 xargs -P "$processes" -I{} bash -c "step part{}.terms explain --posterior all.gp --index 24 --shard {}/$parts -o part{}.terms"
seq 0 $((parts - 1)) | GOMAXPROCS=1 xargs -P "$processes" -I{} bash -c "step part{}.audit audit --posterior all.gp --shard {}/$parts -o part{}.audit"
merge() {
	[ -e "$1" ] || { env time -a -o times -f "$1: %e s, %U + %S s of processors, %M KiB" gpexplain merge part*."${1%.txt}" --quiet >"$1.tmp" && mv "$1.tmp" "$1"; }
}
merge terms.txt
merge audit.txt
cat times
