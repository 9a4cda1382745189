#!/usr/bin/env bash
# Runs doc/examples/shards/slurm.sh on a Slurm of four nodes, which are four slurmd on this machine, as an ordinary user. In
# the middle of a part its node is killed with all of its processes; another part finds a full disk at first; parts that are
# damaged or lost are submitted again; a job whose data are not there is not tried again. The posterior is compared with that
# of the same parts in one process each without Slurm, byte for byte, and with that of one fit, to rounding.
#
#	testdata/cluster/slurm.sh            # as root on Debian; installs slurm-wlm and munge where they are absent
#	SIZE=8000 testdata/cluster/slurm.sh  # more training rows
#
# It needs gpexplain on the PATH. In the end nothing runs, and nothing is left but the packages.
set -euo pipefail
rows=${SIZE:-2000}
skip() { echo "skipped: $*"; exit 0; }
say() { echo "$(date +%T) $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] && [ -e /etc/debian_version ] || skip "it needs root on Debian"
example=$(cd "$(dirname "$0")/../.." && pwd)/doc/examples/shards/slurm.sh
gpexplain=$(command -v gpexplain) || fail "gpexplain is not on the PATH"
if ! { command -v slurmctld && command -v slurmd && command -v munged; } >/dev/null; then
	begin=$SECONDS status=0
	policy=/usr/sbin/policy-rc.d # keeps Debian from starting the daemons
	[ -e $policy ] && policy= || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy; }
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurm-wlm munge; } >/dev/null 2>&1 || status=$?
	[ -z "$policy" ] || rm $policy
	[ $status = 0 ] || skip "slurm-wlm and munge cannot be installed"
	say "installed slurm-wlm and munge in $((SECONDS - begin)) s"
fi

dir=$(mktemp -d)
export SLURM_CONF=$dir/slurm.conf
ours() { # the processes of this Slurm and its jobs, told by a variable of their environment
	local p
	for p in $(grep -lszxF "SLURM_CONF=$SLURM_CONF" /proc/[0-9]*/environ | cut -d/ -f3); do
		[ ! -e "/proc/$p" ] || echo "$p"
	done
}
stop() {
	local status=$?
	[ $status = 0 ] || tail -n 12 "$dir"/slurmctld.log "$dir"/*/*.out >&2 || true
	for _ in $(seq 100); do
		kill -9 $(ours) 2>/dev/null || break
		sleep .1
	done
	[ -z "$(ours)" ] || { echo "FAILED: these still run: $(ours)" >&2; status=1; }
	rm -rf "$dir"
	exit $status
}
trap stop EXIT
trap 'exit 130' INT TERM

# The cluster: a node has the 4 CPUs and the 8 GB that a task of the example takes, whatever this machine has.
chmod 755 "$dir"
mkdir "$dir/state" "$dir/bin"
cp "$gpexplain" "$dir/bin"
PATH=$dir/bin:$PATH
host=$(hostname -s)
cat >"$SLURM_CONF" <<-EOF
	ClusterName=test
	SlurmctldHost=$host(127.0.0.1)
	SlurmctldPort=17000
	SlurmUser=root
	AuthInfo=socket=$dir/munge.socket
	StateSaveLocation=$dir/state
	SlurmdSpoolDir=$dir/spool.%n
	SlurmctldPidFile=$dir/slurmctld.pid
	SlurmdPidFile=$dir/slurmd.%n.pid
	SlurmctldLogFile=$dir/slurmctld.log
	SlurmdLogFile=$dir/slurmd.%n.log
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_Core_Memory
	SlurmdParameters=config_overrides
	SlurmdTimeout=10
	MinJobAge=3600
	MailProg=/bin/true
	NodeName=n[0-3] NodeHostname=$host NodeAddr=127.0.0.1 Port=17001-17004 CPUs=4 RealMemory=8192
	PartitionName=all Nodes=ALL Default=YES
EOF
(umask 077 && head -c 1024 /dev/urandom >"$dir/munge.key")
munged --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munge.seed"
slurmctld
for n in 0 1 2 3; do slurmd -N n$n; done
await() { # SECONDS CONDITION: until a command line succeeds
	local end=$((SECONDS + $1))
	until eval "$2"; do
		[ $SECONDS -lt $end ] || fail "after $1 s, not yet: $2"
		sleep .2
	done
}
await 60 '[ "$(sinfo -h -t idle -o %D)" = 4 ]'
say "$(slurmctld -V), $(munged -V | head -n 1 | cut -d' ' -f1), $(nproc) cores, $(uname -m)"

user() { # FOLDER COMMAND: what an ordinary user runs there
	[ -d "$dir/$1" ] || install -d -o nobody "$dir/$1"
	(cd "$dir/$1" && shift && exec runuser -u nobody -- "$@")
}
about() { scontrol -o show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p"; }
net=$dir/train/net.onnx
user train gpexplain train --quiet --data "digits:$rows,200" --arch lenet5 --epochs 1 --lbfgs 0 --out net.onnx >/dev/null
export PARTS=8 FIT="--model $net --data digits:$rows,200 --inducing 150"

# A user submits the example. The name of part 5 leads to a full disk at first.
begin=$SECONDS
user cluster ln -s /dev/full part5.sums
merge=$(user cluster sh "$example")
select=$((merge - 2)) array=$((merge - 1))
say "submitted job $select, array $array of $PARTS parts and job $merge"
await 600 'task=$(squeue -h -w n1 -t R -j $array -o %K) && [ -n "$task" ] && pgrep -u nobody -f "gpexplain fit .*--shard $task/" >/dev/null'
job=$(squeue -h -w n1 -t R -j $array -o %A)
sleep .3
pids=$(scontrol listpids "$job" n1 | awk 'NR > 1 { print $1 }')
kill -9 "$(cat "$dir/slurmd.n1.pid")" $(ps -o ppid= -p "${pids%%[[:space:]]*}") $pids
killed=$SECONDS
[ ! -e "$dir/cluster/part$task.sums" ] || fail "part $task was done before its node was killed"
say "killed node n1 in part $task: slurmd, slurmstepd and $(wc -w <<<"$pids") processes of the task"
await 300 '[ "$(about ${array}_5 Restarts)" = 1 ]'
user cluster rm part5.sums
say "part 5 ended with status 75 and was requeued; its disk has room now"
await 120 'sinfo -h -n n1 -o %T | grep -q down'
say "Slurm says that n1 is down, $((SECONDS - killed)) s after it was killed"
await 900 '[ "$(about $merge JobState)" = COMPLETED ]'
say "all.gp is there, $((SECONDS - begin)) s after it was submitted"
for i in $(seq 0 $((PARTS - 1))); do
	job=${array}_$i
	case $i in $task | 5) want=1 ;; *) want=0 ;; esac
	[ "$(about $job Restarts) $(about $job ExitCode)" = "$want 0:0" ] || fail "task $i: Restarts=$(about $job Restarts) ExitCode=$(about $job ExitCode)"
done
[ "$(about ${array}_$task BatchHost)" != n1 ] || fail "part $task ran on n1 again"
say "Restarts=1 of tasks $task (now on $(about ${array}_$task BatchHost)) and 5, 0 of the others"

# The same without Slurm, and in one fit.
parts() { # FOLDER
	user "$1" gpexplain fit --quiet --select-only $FIT -o z.gp
	for i in $(seq 0 $((PARTS - 1))); do user "$1" gpexplain fit --quiet --inducing-file z.gp --shard "$i/$PARTS" -o "part$i.sums"; done
	user "$1" gpexplain merge --quiet part{0..7}.sums -o all.gp
} >/dev/null
parts alone
cmp "$dir/cluster/all.gp" "$dir/alone/all.gp"
say "the posterior has the same $(stat -c %s "$dir/cluster/all.gp") bytes as without Slurm"
user alone gpexplain fit --quiet --method nystrom $FIT -o one.gp >/dev/null
for file in cluster/all alone/one; do
	# all lines but the summary
	user alone gpexplain predict --quiet --json --posterior "$dir/$file.gp" | sed '$d' >"$dir/$(basename $file).json"
done
paste -d '\n' "$dir/all.json" "$dir/one.json" | awk '
	{ n = split($0, now, /[^-+.0-9eE]+/) }
	NR % 2 { text = $0; m = n; for (i = 1; i <= n; i++) was[i] = now[i]; next }
	{ if (n != m) exit 1
	  for (i = 1; i <= n; i++) { d = now[i] - was[i]; if (d < 0) d = -d; s = now[i] < 0 ? -now[i] : now[i]; d /= s > 1 ? s : 1; if (d > most) most = d; count++ } }
	END { printf "predictions by it and by one fit: %d numbers of %d rows differ by %.1e at most, relative above 1\n", count, NR / 2, most; exit !(NR == 400 && most < 1e-9) }'

# One part is lost, and another damaged.
user cluster rm part2.sums
printf x | user cluster dd of=part6.sums bs=1 seek=5000 conv=notrunc status=none
missing=$(user cluster gpexplain merge --missing --quiet "$dir"/cluster/part*.sums)
[ "$missing" = 2,6 ] || fail "merge --missing says $missing"
user cluster rm all.gp
again=$(user cluster sbatch --parsable --array="$missing" "$example" part)
merge=$(user cluster sbatch --parsable --dependency="afterok:$again" "$example" merge)
await 300 '[ "$(about $merge JobState)" = COMPLETED ]'
cmp "$dir/cluster/all.gp" "$dir/alone/all.gp"
say "merge --missing: $missing; submitted again, the same bytes"

# A refit, of the built-in network.
export FIT="--refit --inducing 50"
merge=$(user refit sh "$example")
parts refit-alone
await 300 '[ "$(about $merge JobState)" = COMPLETED ]'
cmp "$dir/refit/all.gp" "$dir/refit-alone/all.gp"
say "with --refit, the same bytes"

# What no retry mends is not tried again.
export FIT="--data none.csv"
merge=$(user bad sh "$example")
await 60 '[ "$(about $merge JobState)" = CANCELLED ]'
[ "$(about $((merge - 2)) JobState) $(about $((merge - 2)) ExitCode) $(about $((merge - 2)) Restarts)" = "FAILED 1:0 0" ] || fail "the job of bad data is $(about $((merge - 2)) JobState)"
say "data that are not there: status 1, no restart, the jobs after it are cancelled"
say "done in $SECONDS s"
