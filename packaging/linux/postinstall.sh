#!/bin/sh
# Runs after an installation and after an upgrade. It starts nothing, and restarts the service after an upgrade if it runs.
# Debian passes "configure" and the version before, Red Hat 1 for an installation and 2 for an upgrade.
[ -d "${DPKG_ROOT:-}/run/systemd/system" ] || exit 0
systemctl daemon-reload || true
if [ "$1" = 2 ] || { [ "$1" = configure ] && [ -n "$2" ]; }; then
	systemctl try-restart once.service || true
fi
