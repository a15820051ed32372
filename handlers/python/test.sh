#!/usr/bin/env bash
# The package for handlers in Python as its users have it: built, installed, and tested on the oldest and the newest Python of this machine.
#
#   handlers/python/test.sh          needs Python 3.11 or later; tests on 3.9 and 3.10 too, if they are there
#
# What it installs is pinned, and in .tools/handlers-python. PACKAGES is a folder that the built packages are copied into.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD/../..
source "$root/localstack/python.sh"
tools=$root/.tools/handlers-python
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
packages=$temporary/packages

mkdir -p "$root/.tools" "$packages"
environment "$tools" requirements.txt 3.13 3.12 3.11
export PATH=$tools/bin:$PATH PYTHONDONTWRITEBYTECODE=1
ruff check --quiet --no-cache src test
ruff format --quiet --no-cache --check src test || { echo 'not formatted by ruff: handlers/python'; exit 1; }
mypy --no-error-summary --cache-dir "$tools/mypy"

rm -f LICENSE # of an earlier run; a clone has none
python -m build --no-isolation --wheel --outdir "$temporary/clone" . >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
cp "$root/LICENSE" .
python -m build --no-isolation --outdir "$packages" . >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
wheel=$(echo "$packages"/*.whl)
if python -m zipfile -l "$wheel" | awk 'NR > 1 {print $1}' | grep -vE '^(once_handler/(_?[a-z]+|__[a-z]+__)\.py|once_handler/py\.typed|[a-z_]+-[^/]+\.dist-info/(METADATA|WHEEL|RECORD|licenses/LICENSE))$'; then
	echo 'these files do not belong into the wheel'
	exit 1
fi
tar -tzf "$packages"/*.tar.gz | grep -E '/LICENSE$' >/dev/null || { echo 'the source distribution has no LICENSE'; exit 1; }

# An environment of a user. mypy looks for types of packages only in the folder for installed packages.
python -m venv --without-pip "$temporary/user"
installed=$("$temporary/user/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
python -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile --target "$installed" "$wheel"
for version in "$(interpreter 3.9 3.10 3.11 3.12 3.13)" "$temporary/user/bin/python"; do
	PYTHONPATH=$installed "$version" -W error -m unittest discover -s test >"$temporary/log" 2>&1 || { cat "$temporary/log"; exit 1; }
	for example in stock reservations; do
		(cd "$root/examples/$example/python" && PYTHONPATH=$installed "$version" -W error -m unittest) >"$temporary/example" 2>&1 || { cat "$temporary/example"; exit 1; }
	done
	echo "$("$version" --version): $(grep '^Ran' "$temporary/log")"
done
cp test/program.py "$temporary"
(cd "$temporary" && mypy --strict --no-error-summary --cache-dir "$tools/mypy" --python-executable "$temporary/user/bin/python" program.py)
echo "$(basename "$wheel") installs, and its types are found"
[ -z "${PACKAGES:-}" ] || { mkdir -p "$PACKAGES" && cp "$packages"/* "$PACKAGES"; }
