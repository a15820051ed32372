#!/bin/sh
# Runs after a removal, and does nothing during an upgrade. The data in /var/lib/once stays.
# Debian passes "remove" or "upgrade", Red Hat 0 for a removal and 1 for an upgrade.
[ -d "${DPKG_ROOT:-}/run/systemd/system" ] || exit 0
case "$1" in
remove | 0) systemctl daemon-reload || true ;;
esac
