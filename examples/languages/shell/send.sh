#!/bin/sh
# Sends orders, each until the server has it.
#
#   sh send.sh http://127.0.0.1:8080 orders outbox customer-7 '{"item": 7}'
#
# An order and its key are in the folder outbox before the first try. If the program was killed, its
# next run sends the order that is left there, under the same key.
set -eu
url=$1 stream=$2 outbox=$3

# write_down saves an order with a new key, so that it survives a crash.
write_down() {
	rm -rf "$outbox.new"
	mkdir "$outbox.new"
	od -An -N16 -tx1 /dev/urandom | tr -d ' \n' >"$outbox.new/key"
	printf %s "$1" >"$outbox.new/group"
	printf %s "$2" >"$outbox.new/body"
	sync
	mv "$outbox.new" "$outbox"
}

# try sends the order in the outbox, and prints the status and whether it was sent before. Every try
# has the same key. curl tries again without an answer, and after 408, 429 and most of 5xx.
try() {
	curl --silent --output "$outbox/answer" --write-out '%{http_code} %header{idempotent-replayed}' \
		--retry 1000000 --retry-all-errors --retry-delay 1 --max-time 30 \
		--header "Idempotency-Key: $(cat "$outbox/key")" --header "Once-Group: $(cat "$outbox/group")" \
		--header 'Content-Type: application/json' --header 'Prefer: wait=10' --data-binary "@$outbox/body" \
		"$url/v1/streams/$stream/messages"
}

# deliver sends the order in the outbox, and removes it.
deliver() {
	while :; do
		result=$(try) || true
		case $result in
		2* | 4[0-9][0-9]*) case $result in 409* | 425*) ;; *) break ;; esac ;;
		esac
		sleep 1
	done
	echo "${result%% *} $(cat "$outbox/answer") replayed: ${result#* }"
	case $result in
	2*) rm -r "$outbox" ;;
	*) mv "$outbox" "$outbox.refused" ;; # it would be refused again: a person has to look
	esac
}

if [ -d "$outbox" ]; then deliver; fi
if [ $# -gt 3 ]; then
	write_down "$4" "$5"
	deliver
fi
