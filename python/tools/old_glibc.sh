#!/usr/bin/env bash
# Makes a folder with the symbols of an old glibc, so that a linker of a newer system links programs for the old one.
#
#     python/tools/old_glibc.sh 2.28 x86_64 FOLDER       then link with -L FOLDER
#
# The package ziglang of PyPI knows the symbols of each version. Only these are taken from it: as a linker it would also
# replace libgcc's unwinder, and a program then crashes where a thread of Python is still in a loader at its end.
set -euo pipefail
version=${1:?a version of glibc, such as 2.28}
machine=${2:?a machine: x86_64 or aarch64}
folder=${3:?a folder}

cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export ZIG_GLOBAL_CACHE_DIR=$cache ZIG_LOCAL_CACHE_DIR=$cache
echo 'double pow(double, double); double twice(double x) { return pow(x, 2); }' >"$cache/a.c"
"${PYTHON:-python3}" -m ziglang cc -target "$machine-linux-gnu.$version" -shared -o "$cache/a.so" "$cache/a.c" \
    -lm -lpthread -ldl -lrt
# Each library is a file of symbols without code, whose code the system has.
libraries=("$cache"/o/*/libc.so.6)
mkdir -p "$folder"
cp "${libraries[0]%/*}"/lib*.so.* "$cache"/o/*/libc_nonshared.a "$folder"
cd "$folder"
for name in dl m pthread resolv rt util; do
    ln -sf "lib$name".so.* "lib$name.so"
done
# What older versions link statically, such as stat. `ld` is the dynamic linker.
echo "INPUT ( libc.so.6 libc_nonshared.a AS_NEEDED ( libld.so.2 ) )" >libc.so
