# Starts gpexplain serve with these flags on a free port, and ends it once it answers.
exec 3< <(exec gpexplain serve "$@" --addr 127.0.0.1:0)
server=$!
read -r line <&3
kill -INT $server
wait $server
