#!/bin/sh
# Prints the orders of a customer that are new since the last run, one JSON object a line.
#
#   sh read.sh http://127.0.0.1:8080 orders customer-7 offset
set -eu
url=$1 stream=$2 group=$3 offset=$4

while :; do
	# With wait=20 the server waits for the next entry, if there is none: to follow the log, go on in
	# place of the break.
	next=$(curl --silent --show-error --fail --get --output "$offset.page" --write-out '%header{once-next} %header{once-end}' \
		--header 'Accept: application/x-ndjson' --data-urlencode "after=$(cat "$offset" 2>/dev/null || true)" --data wait=0 \
		"$url/v1/streams/$stream/groups/$group/log")
	cat "$offset.page"
	printf %s "${next% *}" >"$offset"
	if [ ! -s "$offset.page" ] || [ "${next#* }" = true ]; then break; fi
done
rm "$offset.page"
