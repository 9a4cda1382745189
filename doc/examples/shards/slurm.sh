#!/bin/sh
# A Slurm array of 64 parts, whose tasks are counted from 0 as parts are. Submit the three
# steps with their order:
#
#	z=$(sbatch --parsable --wrap 'gpexplain fit --select-only --model net.onnx --data train.csv --inducing 200 -o z.gp')
#	a=$(sbatch --parsable --dependency=afterok:$z slurm.sh)
#	sbatch --dependency=afterok:$a --wrap 'gpexplain merge part*.sums -o all.gp'
#
# A task that fails is submitted again alone, with --array=17. Files are on a file system that
# all nodes see.
#SBATCH --array=0-63
#SBATCH --cpus-per-task=4
#SBATCH --mem=8G
#SBATCH --time=01:00:00
set -eu
exec gpexplain fit --quiet --workers "${SLURM_CPUS_PER_TASK:-1}" --inducing-file z.gp \
	--shard "$SLURM_ARRAY_TASK_ID/${SLURM_ARRAY_TASK_COUNT:-64}" -o "part$SLURM_ARRAY_TASK_ID.sums"
