#!/bin/sh
# A fit by Slurm in PARTS parts, in a folder that all nodes see:
#
#	PARTS=64 FIT="--model net.onnx --data train.csv --inducing 200" sh slurm.sh
#
# submits three jobs, each of which waits for the one before: the match and the inducing examples,
# the array of parts, whose tasks are counted from 0 as parts are, and their merger. Slurm starts a
# task again whose node died. After an error that was mended, the parts that are not there:
#
#	PARTS=64 sbatch --array="$(gpexplain merge --missing part*.sums)" slurm.sh part
#	sbatch slurm.sh merge
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=01:00:00
#SBATCH --requeue
set -eu
export PARTS="${PARTS:-64}" FIT="${FIT:---inducing 200}"
submit() { sbatch --parsable --kill-on-invalid-dep=yes "$@"; }
case ${1:-} in
select) set -- fit --select-only $FIT -o z.gp ;;
part) set -- fit --inducing-file z.gp --shard "$SLURM_ARRAY_TASK_ID/$PARTS" -o "part$SLURM_ARRAY_TASK_ID.sums" ;;
merge) set -- merge part*.sums -o all.gp ;;
*)
	z=$(submit "$0" select)
	a=$(submit --dependency="afterok:$z" --array="0-$((PARTS - 1))" "$0" part)
	submit --dependency="afterok:$a" "$0" merge
	exit ;;
esac
status=0
gpexplain "$@" --quiet --workers "${SLURM_CPUS_PER_TASK:-1}" || status=$?
# The machine failed, its disk full for example: again, on any node, three times at most. The
# last task of an array has the array's number as SLURM_JOB_ID.
if [ $status = 75 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 3 ]; then
	scontrol requeue "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
fi
exit $status
