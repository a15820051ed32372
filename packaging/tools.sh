# Tools for releases, in one version each; sourced by the scripts beside it. They are built into .tools, once.

# tool NAME VERSION PACKAGE prints the path of a tool written in Go.
tool() {
	local path=$PWD/.tools/$1-$2
	if [ ! -x "$path" ]; then
		mkdir -p "$PWD/.tools"
		GOFLAGS='' GOBIN=$PWD/.tools/bin.$$ go install "$3@$2" >&2
		mv "$PWD/.tools/bin.$$/$1" "$path"
		rmdir "$PWD/.tools/bin.$$"
	fi
	echo "$path"
}

nfpm() { tool nfpm v2.45.2 github.com/goreleaser/nfpm/v2/cmd/nfpm; }
cyclonedx() { tool cyclonedx-gomod v1.10.0 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod; }
goreleaser() { tool goreleaser v2.15.1 github.com/goreleaser/goreleaser/v2; }
