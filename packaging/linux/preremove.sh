#!/bin/sh
# Runs before a removal, and stops the service. It also runs during an upgrade, and then does nothing.
# Debian passes "remove" or "upgrade", Red Hat 0 for a removal and 1 for an upgrade.
[ -d "${DPKG_ROOT:-}/run/systemd/system" ] || exit 0
case "$1" in
remove | 0) systemctl disable --now once.service || true ;;
esac
