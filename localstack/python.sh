# Python environments with pinned packages; sourced by the scripts of the emulators that are written in Python.

# environment DIR REQUIREMENTS VERSION... makes an environment in DIR with exactly the packages of a file, on the first of these versions of Python that
# is there. One that was made from the same file is left alone; one whose making was cut short is made again.
environment() {
	local dir=$1 requirements=$2 python
	shift 2
	cmp -s "$requirements" "$dir/made-from.txt" && return
	python=$(interpreter "$@")
	rm -rf "$dir"
	echo "installing $requirements into $dir, this once" >&2
	"$python" -m venv "$dir"
	"$dir/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-compile -r "$requirements"
	cp "$requirements" "$dir/made-from.txt"
}

# interpreter VERSION... prints the first Python of one of these versions: PYTHON, on the path, or one that uv or pyenv manages.
interpreter() {
	local version candidate
	for version; do
		for candidate in "${PYTHON:-}" "python$version" "$(uv python find --no-python-downloads "$version" 2>/dev/null)" \
			"${PYENV_ROOT:-$HOME/.pyenv}/versions/$version".*/"bin/python$version"; do
			if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]; then
				echo "$candidate"
				return
			fi
		done
	done
	echo "needs Python $*: install it, or name it in PYTHON" >&2
	return 1
}
