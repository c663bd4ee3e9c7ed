#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the autograder's image.
set -euo pipefail
root="${AUTOGRADER:-/autograder}"
source="$root/source"
export DEBIAN_FRONTEND=noninteractive

newest() {  # the first of these that is there and can make an environment
  for each in "$@"; do
    if command -v "python$each" >/dev/null && "python$each" -c 'import ensurepip' 2>/dev/null; then
      echo "python$each"
      return
    fi
  done
}

apt-get update
apt-get install -y --no-install-recommends g++ make libseccomp2 ca-certificates python3-venv
# The sandbox: where the container allows no namespaces it is of no use, and Landlock is tried.
apt-get install -y --no-install-recommends bubblewrap || echo "no bubblewrap here"
python="$(newest 3.13 3.12 3.11)"
for version in 3.12 3.11; do
  if [ -z "$python" ]; then
    apt-get install -y "python$version" "python$version-venv" "python$version-dev" || true
    python="$(newest "$version")"
  fi
done
python="${python:-$(newest 3.10)}"  # with older packages: where there is no other
if [ -z "$python" ]; then
  echo "Python 3.10 or newer is needed and apt has none: choose a newer base image (Ubuntu 24.04)." >&2
  exit 1
fi
# Triton compiles a small C module, which needs Python's headers.
apt-get install -y --no-install-recommends "$(basename "$python")-dev" || true

"$python" -m venv "$root/env"
install() { "$root/env/bin/python" -m pip install --no-cache-dir --constraint "$source/constraints.txt" "$@"; }
install --index-url "${TORCH_INDEX:-https://download.pytorch.org/whl/cpu}" torch
install "triton==@TRITON@; python_version > '3.10'" "triton==@TRITON_310@; python_version <= '3.10'"
install --editable "$source"
"$root/env/bin/python" -m grader doctor || true
