/* Runs lists that were compiled ahead of time on pixels and on a file, and writes the arrays to a file. */
#include "val.h"
#include "train.h"
#include "policy.h"
#include "gray.h"
#include "any.h"
#include "damaged.h"
#include "later.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, int status)
{
    fprintf(stderr, "%s: %d: %s\n", what, status, fuseloop_last_error());
    exit(1);
}

static uint8_t *contents(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) { perror(path); exit(1); }
    fseek(file, 0, SEEK_END);
    *bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *content = malloc(*bytes);
    if (fread(content, 1, *bytes, file) != *bytes) { perror(path); exit(1); }
    fclose(file);
    return content;
}

static void refused(const char *what, int status, int expected, const char *text)
{
    if (status != expected || !strstr(fuseloop_last_error(), text)) fail(what, status);
}

/* arguments: pixels, height, width, stride, file, output */
int main(int argc, char **argv)
{
    if (argc != 7) return 2;
    size_t pixel_bytes, file_bytes;
    uint8_t *pixels = contents(argv[1], &pixel_bytes), *file = contents(argv[5], &file_bytes);
    size_t height = strtoul(argv[2], NULL, 10), width = strtoul(argv[3], NULL, 10), stride = strtoul(argv[4], NULL, 10);
    FILE *out = fopen(argv[6], "wb");
    fuseloop_context *all[5];
    int (*const opens[5])(fuseloop_context **) = {val_open, train_open, policy_open, gray_open, any_open};
    const size_t channels[5] = {VAL_CHANNELS, TRAIN_CHANNELS, POLICY_CHANNELS, GRAY_CHANNELS, ANY_CHANNELS};
    for (int k = 0; k < 5; k++) {
        int status = opens[k](&all[k]);
        if (status) fail("open", status);
        for (uint64_t sample = 0; sample < 24; sample++) {
            fuseloop_key key = {.seed = 7, .epoch = 2, .sample = sample, .field = 0};
            fuseloop_array array;
            for (int from_file = 0; from_file < 2; from_file++) {
                void *to = NULL;
                size_t bytes = 0;
                for (int round = 0; round < 2; round++) {
                    status = from_file
                        ? fuseloop_apply_file(all[k], file, file_bytes, key, to, bytes, &array)
                        : fuseloop_apply_pixels(all[k], pixels, height, channels[k] == 1 ? width * 3 : width, channels[k],
                                                stride, key, to, bytes, &array);
                    if (status) fail("apply", status);
                    if (!to) to = aligned_alloc(64, (array.bytes + 63) / 64 * 64);
                    bytes = array.bytes;
                }
                fwrite(to, 1, bytes, out);
                free(to);
            }
        }
    }
    fclose(out);

    /* What is wrong is an error with a text. */
    static _Alignas(16) uint8_t array[VAL_BYTES + 8];
    fuseloop_key key = {0};
    fuseloop_context *other = (fuseloop_context *)argv;
    refused("list", fuseloop_open(NULL, 0, &other), FUSELOOP_ARGUMENT, "`list` is null");
    if (other) return 3;
    refused("context", val_open(NULL), FUSELOOP_ARGUMENT, "`context` is null");
    refused("header", fuseloop_open(&fuseloop_list_val, 1, &other), FUSELOOP_OBJECT, "different runs of `fuseloop compile`");
    refused("damaged", damaged_open(&other), FUSELOOP_OBJECT, "the checksum of its description is");
    refused("later", later_open(&other), FUSELOOP_OBJECT, "has format 2, but this program reads format 1");
    refused("no context", fuseloop_apply_file(NULL, file, file_bytes, key, array, VAL_BYTES, NULL), FUSELOOP_ARGUMENT,
            "`context` is null");
    refused("no file", fuseloop_apply_file(all[0], NULL, 3, key, array, VAL_BYTES, NULL), FUSELOOP_ARGUMENT, "`file` is null");
    refused("no image", fuseloop_apply_file(all[0], pixels, 100, key, array, VAL_BYTES, NULL), FUSELOOP_IMAGE, "");
    refused("cut file", fuseloop_apply_file(all[0], file, 300, key, array, VAL_BYTES, NULL), FUSELOOP_IMAGE, "");
    refused("short array", fuseloop_apply_file(all[0], file, file_bytes, key, array, VAL_BYTES - 1, NULL), FUSELOOP_ARGUMENT,
            "but `out` has");
    refused("alignment", fuseloop_apply_file(all[0], file, file_bytes, key, array + 1, VAL_BYTES, NULL), FUSELOOP_ARGUMENT,
            "no multiple of 4");
    refused("stride", fuseloop_apply_pixels(all[0], pixels, height, width, 3, 3 * width - 1, key, array, VAL_BYTES, NULL),
            FUSELOOP_ARGUMENT, "more than a row");
    refused("huge", fuseloop_apply_pixels(all[0], pixels, SIZE_MAX, width, 3, stride, key, array, VAL_BYTES, NULL),
            FUSELOOP_ARGUMENT, "more bytes than an address can count");
    refused("none", fuseloop_apply_pixels(all[0], pixels, 0, width, 3, stride, key, array, VAL_BYTES, NULL), FUSELOOP_ARGUMENT,
            "each must be 1 to 65535");
    refused("channels", fuseloop_apply_pixels(all[0], pixels, height, width, 1, stride, key, array, VAL_BYTES, NULL),
            FUSELOOP_ARGUMENT, "the image is u8 [height, width, 1], but the object file of the list was compiled for");
    for (int k = 0; k < 5; k++) fuseloop_close(all[k]);
    fuseloop_close(NULL);

    /* One thread, and no executable page but those of files. */
    FILE *status = fopen("/proc/self/status", "r"), *maps = fopen("/proc/self/maps", "r");
    char line[512];
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, "Threads:", 8) && atoi(line + 8) != 1) { fputs(line, stderr); return 4; }
    while (maps && fgets(line, sizeof line, maps)) {
        char permissions[5] = "", path[256] = "";
        sscanf(line, "%*s %4s %*s %*s %*s %255s", permissions, path);
        if (permissions[2] == 'x' && (permissions[1] == 'w' || !path[0])) { fputs(line, stderr); return 5; }
    }
    puts(fuseloop_version());
    return 0;
}
