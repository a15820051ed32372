#!/usr/bin/env bash
# Makes the packages of this commit for this machine, installs the one for Debian into a folder, and tries what it has there. systemctl is a script that
# writes down its arguments. The package for Red Hat is unpacked, and must have the same files.
#
#   packaging/test.sh        needs Go, and dpkg, rpm, man and mandoc; it installs the last three if this is Debian and runs as root
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/.tools/package root=$PWD/.tools/package/root
version=1.2.3 next=1.2.4

# expect runs a command, and fails with a sentence if it fails.
expect() { # sentence, command...
	local sentence=$1
	shift
	"$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; echo "expected: $sentence" >&2; exit 1; }
}

need() {
	local missing=()
	for name in rpm man mandoc; do command -v "$name" >/dev/null || missing+=("${name/#man/man}"); done
	[ ${#missing[@]} -gt 0 ] || return 0
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		echo "install ${missing[*]} first" >&2
		return 1
	fi
	{ apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends -o DPkg::Lock::Timeout=300 "${missing[@]/%man/man-db}"; } >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log" >&2; return 1; }
}

# package makes the packages of a version.
package() {
	go build -ldflags "-s -w -X main.release=v$1" -o "$work/once" ./cmd/once
	packaging/packages.sh "$arch" "$1" "$work/once"
}

# debian runs dpkg on the folder, which is a system of its own with systemd. Scripts of the package run with DPKG_ROOT, and with our systemctl.
debian() {
	: >"$work/systemctl.log"
	PATH=$work/bin:$PATH dpkg --root="$root" --force-not-root --force-script-chrootless --force-bad-path "$@"
}

# asked reports whether systemctl was called with exactly these lines since the last call of debian.
asked() { diff <(printf '%s' "${1:+$1$'\n'}") "$work/systemctl.log"; }

# sane reports whether a folder has the files of the package, and they work.
sane() {
	local folder=$1 page
	expect "once version says v$2" grep -qF "once v$2 " <("$folder/usr/bin/once" version)
	expect "once check accepts the configuration of the package" "$folder/usr/bin/once" check --config "$folder/etc/once/once.yaml"
	sed -E 's/^  # /  /' "$folder/etc/once/once.yaml" | sed -E 's/env:[A-Z_]+/env:HOME/; s/^  ((Send|The same) .*)$/  # \1/' >"$work/all.yaml"
	expect "once check accepts the configuration with all that is commented out" "$folder/usr/bin/once" check --config "$work/all.yaml"
	expect "the unit starts the binary of the package" grep -q '^ExecStart=/usr/bin/once serve ' "$folder/usr/lib/systemd/system/once.service"
	[ -f "$folder/usr/share/man/man1/once-send.1.gz" ] || { echo "expected: a manual page of once send" >&2; exit 1; }
	for page in "$folder"/usr/share/man/man1/*; do
		expect "man has no warnings about $page" quiet env LC_ALL=C.UTF-8 MANROFFSEQ='' man --warnings -l "$page"
		gunzip -c "$page" | sed -E '/^\.TH/s/"[A-Z][a-z]{2} [0-9]{4}"/"2026-01-01"/; s/^\t//' >"$work/page.1" # cobra's form of dates, and its tabs
		expect "mandoc has no warnings about $page" mandoc -Tlint -Wwarning "$work/page.1"
	done
	expect "bash completes once" bash --norc -c "source '$folder/usr/share/bash-completion/completions/once' && complete -p once"
}

# quiet fails if a command writes to standard error.
quiet() { local said; said=$("$@" 2>&1 >/dev/null) && [ -z "$said" ] || { echo "$said"; return 1; }; }

files() { (cd "$1" && find . -type f -path "./${2:-*}" | sort); }

rm -rf "$work" out/packages
mkdir -p "$work/bin" "$root"/{var/lib/dpkg/info,var/lib/dpkg/updates,run/systemd/system}
touch "$root/var/lib/dpkg/status"
need
arch=$(go env GOARCH) config=$root/etc/once/once.yaml
printf '#!/bin/sh\necho "$*" >>%q\n' "$work/systemctl.log" >"$work/bin/systemctl"
chmod +x "$work/bin/systemctl"
packaging/pages.sh "$version"
package "$version"
package "$next"
deb=out/packages/once_${version}_linux_$arch.deb rpm=out/packages/once_${version}_linux_$arch.rpm

expect "dpkg installs the package" debian -i "$deb"
expect "an installation starts nothing" asked "daemon-reload"
sane "$root" "$version"

echo '# mine' >>"$config"
expect "dpkg upgrades the package" debian -i "out/packages/once_${next}_linux_$arch.deb"
expect "an upgrade restarts the service if it runs" asked $'daemon-reload\ntry-restart once.service'
expect "an upgrade keeps a changed configuration" grep -q '^# mine$' "$config"
expect "an upgrade replaces the binary" grep -qF "once v$next " <("$root/usr/bin/once" version)

expect "dpkg goes back to the version before" debian -i "$deb"
expect "dpkg removes the package" debian -r once
expect "a removal stops the service" asked $'disable --now once.service\ndaemon-reload'
expect "a removal keeps only the configuration" diff <(echo ./etc/once/once.yaml) <(files "$root" '[eu]*')
expect "dpkg purges the package" debian -P once
expect "nothing is left" diff /dev/null <(files "$root" '[eu]*')

mkdir -p "$work/deb" "$work/rpm"
dpkg-deb -x "$deb" "$work/deb"
expect "rpm reads the package" rpm -qp --nosignature "$rpm"
expect "rpm keeps a changed configuration" grep -qx /etc/once/once.yaml <(rpm -qp --nosignature --configfiles "$rpm")
(cd "$work/rpm" && rpm2archive - <"../../../$rpm" | tar xz)
sane "$work/rpm" "$version"
elsewhere='licenses|doc/once/copyright|_once'
expect "both packages have the same files" diff <(files "$work/deb" | grep -vE "$elsewhere") <(files "$work/rpm" | grep -vE "$elsewhere")
echo "$deb $(du -h "$deb" | cut -f 1), $rpm $(du -h "$rpm" | cut -f 1)"
