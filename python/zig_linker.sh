#!/usr/bin/env bash
# A linker for wheels that serve old systems: Zig's, which knows the functions of each release of glibc.
#
# Not as maturin's --zig: that links Zig's unwinder into the module instead of using the one of libgcc, which glibc uses
# to end threads, and a program then crashes where a thread of Python is still in a loader at its end.
#
# FUSELOOP_GLIBC says which release (2.28). Needs cargo-zigbuild, ziglang and gcc.
set -euo pipefail
arguments=()
for argument; do
    [ "$argument" != -lgcc_s ] || argument=$(gcc -print-file-name=libgcc_s.so.1)
    arguments+=("$argument")
done
# The libgcc of this system may need newer functions of glibc than the wheel does; that of the user's system will not.
exec cargo-zigbuild zig cc -- -target "$(uname -m)-linux-gnu.${FUSELOOP_GLIBC:-2.28}" \
    -Wl,--allow-shlib-undefined "${arguments[@]}"
