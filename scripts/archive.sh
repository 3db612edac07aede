#!/usr/bin/env bash
# Builds the command for a release, and packs it with its shell completions, manual pages and licences.
#
#     scripts/archive.sh FOLDER [TARGET]       TARGET is the host unless it is given, and then must run here
#
# FOLDER receives fuseloop-VERSION-TARGET.tar.gz and its SHA-256. `cargo binstall` expects this name and this layout:
# see cli/Cargo.toml.
set -euo pipefail
folder=$(mkdir -p "${1:?a folder: scripts/archive.sh FOLDER}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
target=${2:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
built=${CARGO_TARGET_DIR:-target}

cargo build --release --locked --target "$target" --package fuseloop-cli --bin fuseloop --features remote \
    --config 'profile.release.strip=true'
program=$built/$target/release/fuseloop
[ -e "$program" ] || program=$program.exe

name=fuseloop-$version-$target
staged=$(mktemp -d)
trap 'rm -rf "$staged"' EXIT
mkdir -p "$staged/$name/completions" "$staged/$name/man"
cp "$program" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "$staged/$name"
"$program" completions bash >"$staged/$name/completions/fuseloop.bash"
"$program" completions fish >"$staged/$name/completions/fuseloop.fish"
"$program" completions zsh >"$staged/$name/completions/_fuseloop"
"$program" completions powershell >"$staged/$name/completions/fuseloop.ps1"
"$program" man >"$staged/$name/man/fuseloop.1"
# The commands are the pages that this one refers to.
for command in $(sed -n 's/^fuseloop\\-\([a-z]*\)(1)$/\1/p' "$staged/$name/man/fuseloop.1"); do
    [ "$command" = help ] || "$program" man "$command" >"$staged/$name/man/fuseloop-$command.1"
done
[ -e "$staged/$name/man/fuseloop-verify.1" ]
# What is packed runs.
(cd "$staged" && "$staged/$name/$(basename "$program")" --version && "$staged/$name/$(basename "$program")" demo >/dev/null)
tar -czf "$folder/$name.tar.gz" -C "$staged" "$name"
# shasum is what macOS has.
sum=$(command -v sha256sum || echo "shasum -a 256")
(cd "$folder" && $sum "$name.tar.gz" >"$name.tar.gz.sha256" && cat "$name.tar.gz.sha256")
