#!/usr/bin/env bash
# Builds the root filesystem of sparse/beam/Dockerfile, as docker build would, and runs the tests of workers of
# gpexplain-beam with containers of it too: one that Prism starts, and one with a pool of workers. Namespaces of Linux
# stand in for a container engine. All that runs in them, and their mounts, end with the program that made them.
set -euo pipefail
cd "$(dirname "$0")/../../sparse/beam"
namespaces="unshare --user --map-root-user --mount --pid --fork --kill-child"
$namespaces true || { echo "skipped: this user may not make namespaces"; exit; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export CGO_ENABLED=0
go build -o "$dir" ./cmd/gpexplain-beam
go build -o "$dir/boot" github.com/apache/beam/sdks/v2/go/container

root=$dir/root
while read -r step rest; do
	read -r a b <<<"$rest"
	case $step in
	"" | "#"*) ;;
	FROM) [ "$a" = scratch ] && mkdir "$root" ;;
	COPY) mkdir -p "$(dirname "$root$b")" && cp "$dir/$a" "$root$b" ;;
	ENV) environment=$rest ;;
	WORKDIR) work=$a && mkdir -p "$root$work" ;;
	ENTRYPOINT) entry=$(sed 's/^\["\(.*\)"\]$/\1/' <<<"$rest") ;;
	*) echo "Dockerfile: $step is unknown" >&2 && exit 1 ;;
	esac
done <Dockerfile
mkdir -p "$root/etc" "$root/proc"
cp /etc/hosts "$root/etc" # as engines do, for the name localhost

# Runs a container with the directory $VOLUME and the network of the machine. Prism quotes the name of a worker process,
# which boot refuses.
cat >"$dir/run" <<EOF
#!/usr/bin/env bash
mkdir -p "$root\$VOLUME"
exec $namespaces sh -c 'mount --bind "\$VOLUME" "$root\$VOLUME" && mount -t proc proc $root/proc &&
	exec env -i $environment unshare --root=$root --wd=$work $entry "\$@"' run "\${@//\'/}"
EOF
chmod +x "$dir/run"
unset CGO_ENABLED
FUNCGP_CONTAINER=$dir go test -count=1 -v -run TestWorkers ./cmd/gpexplain-beam
