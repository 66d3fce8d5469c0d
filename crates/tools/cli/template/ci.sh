#!/usr/bin/env bash
# Everything that a change has to pass. The GitHub workflow calls this file.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

step() {
    echo "==> $*"
    "$@"
}

step cargo fmt --check
step cargo clippy --all-targets -- --deny warnings
# As the image is built.
step cargo clippy --no-default-features -- --deny warnings
step cargo test
# Whether deploy/rbac.yaml grants what the tests show, no more and no less.
if command -v cargo-windlass > /dev/null; then
    step cargo windlass rbac --check
else
    echo "==> skipped: cargo windlass rbac --check. The program is not installed:"
    echo "    cargo install --locked --path \"/path/to/windlass/crates/tools/cli\""
fi
echo "==> everything passed"
