#!/usr/bin/env bash
# Counts the instructions that an image of a workload takes, on any CPU that qemu emulates.
#
#     scripts/count_instructions.sh W1 photos.beton qemu-aarch64 -L /usr/aarch64-linux-gnu fuseloop
#     FUSELOOP_ISA=128 scripts/count_instructions.sh W1 photos.beton qemu-x86_64 -cpu max fuseloop
#
# Prints the instructions of six epochs less those of two, for each image of four epochs: neither the start nor the
# compiler counts. One thread decodes. Needs a C compiler, and a qemu of version 6 to 8 with plugins, which Debian 12 has.
set -euo pipefail
workload=${1:?a workload: count_instructions.sh WORKLOAD DATASET QEMU...}
dataset=${2:?a dataset: count_instructions.sh WORKLOAD DATASET QEMU...}
shift 2
qemu=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The part of qemu-plugin.h, version 1, that is used.
cat >"$work/count.c" <<'C'
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
struct qemu_plugin_tb;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t, void (*)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, enum qemu_plugin_op, void *, uint64_t);
void qemu_plugin_register_atexit_cb(uint64_t, void (*)(uint64_t, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
int qemu_plugin_version = 1;
static uint64_t instructions;
static void translated(uint64_t id, struct qemu_plugin_tb *block)
{
    qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &instructions,
                                             qemu_plugin_tb_n_insns(block));
}
static void ended(uint64_t id, void *data)
{
    FILE *out = fopen(getenv("COUNT_TO"), "w");
    fprintf(out, "%" PRIu64 "\n", instructions);
    fclose(out);
}
int qemu_plugin_install(uint64_t id, const void *info, int argc, char **argv)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
C
cc -O1 -shared -fPIC "$work/count.c" -o "$work/count.so"

# Prints the instructions of a number of epochs, whose report goes to $work/report.
count() {
    COUNT_TO=$work/count "${qemu[0]}" -plugin "$work/count.so" "${qemu[@]:1}" \
        bench "$dataset" --workload "$workload" --workers 1 --epochs "$1" --json >"$work/report"
    cat "$work/count"
}
few=$(count 2)
many=$(count 6)
samples=$(sed -n 's/.*"samples": *\([0-9]*\).*/\1/p' "$work/report")
echo "$workload: $(((many - few) / (4 * samples))) instructions an image"
