/*
 * libjpeg-turbo, timed: whole pictures, and windows by crop and skip. Driven by libjpeg.rs.
 *
 *     in                                                    out
 *     files N, then N lines: a path
 *     windows M, then M lines: file top left height width    ready
 *     full: each file once                                   nanoseconds decodes pixels
 *     crop: each window once                                 nanoseconds decodes pixels
 *
 * Nanoseconds are the processor's. All files lie in memory, and one decompressor serves all
 * pictures, as in a data loader. The accurate IDCT and smooth upsampling are libjpeg's defaults, set
 * here so that nobody asks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jpeglib.h>

#ifndef LIBJPEG_TURBO_VERSION
#error "this jpeglib.h is not that of libjpeg-turbo"
#endif

struct file {
    unsigned char *bytes;
    unsigned long len;
};

struct window {
    unsigned file, top, left, height, width;
};

/* What was decoded: pixels before cropping to the window. */
struct tally {
    unsigned long long decodes, pixels;
};

static struct jpeg_decompress_struct jpeg;
static struct jpeg_error_mgr errors;
static unsigned char *pixels;
static size_t room;

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static struct file load(const char *path) {
    struct file file;
    FILE *in = fopen(path, "rb");
    if (!in || fseek(in, 0, SEEK_END)) die(path);
    file.len = ftell(in);
    file.bytes = malloc(file.len);
    rewind(in);
    if (!file.bytes || fread(file.bytes, 1, file.len, in) != file.len) die(path);
    fclose(in);
    return file;
}

/* The next line of the orders, without its end; none at the end. */
static char *next(void) {
    static char line[4096];
    if (!fgets(line, sizeof line, stdin)) return NULL;
    line[strcspn(line, "\n")] = 0;
    return line;
}

/* The number in a line that `format` describes. */
static unsigned count(const char *format) {
    unsigned n;
    const char *line = next();
    if (!line || sscanf(line, format, &n) != 1) die(format);
    return n;
}

static char *must_have(char *line) {
    if (!line) die("a line is missing");
    return line;
}

static void start(const struct file *file) {
    jpeg_mem_src(&jpeg, file->bytes, file->len);
    jpeg_read_header(&jpeg, TRUE);
    /* libjpeg makes no RGB of CMYK: those stay as they are. */
    if (jpeg.num_components < 4) jpeg.out_color_space = JCS_RGB;
    jpeg.dct_method = JDCT_ISLOW;
    jpeg.do_fancy_upsampling = TRUE;
    jpeg_start_decompress(&jpeg);
}

/* Reads `rows` rows behind each other. */
static void read_rows(unsigned rows, struct tally *tally) {
    size_t stride = (size_t)jpeg.output_width * jpeg.output_components;
    unsigned first = jpeg.output_scanline, end = first + rows;
    if (stride * rows > room) {
        room = stride * rows;
        pixels = realloc(pixels, room);
        if (!pixels) die("no memory");
    }
    while (jpeg.output_scanline < end) {
        JSAMPROW row = pixels + stride * (jpeg.output_scanline - first);
        jpeg_read_scanlines(&jpeg, &row, 1);
    }
    tally->decodes += 1;
    tally->pixels += (unsigned long long)jpeg.output_width * rows;
}

static void full(const struct file *file, struct tally *tally) {
    start(file);
    read_rows(jpeg.output_height, tally);
    jpeg_finish_decompress(&jpeg);
}

static void crop(const struct file *file, const struct window *window, struct tally *tally) {
    JDIMENSION left = window->left, width = window->width;
    start(file);
    jpeg_crop_scanline(&jpeg, &left, &width);
    if (window->top > 0) jpeg_skip_scanlines(&jpeg, window->top);
    read_rows(window->height, tally);
    jpeg_abort_decompress(&jpeg);
}

int main(void) {
    unsigned files = count("files %u"), windows, i;
    struct file *file = calloc(files, sizeof *file);
    struct window *window;
    const char *order;

    for (i = 0; i < files; i++) file[i] = load(must_have(next()));
    windows = count("windows %u");
    window = calloc(windows, sizeof *window);
    for (i = 0; i < windows; i++) {
        struct window *w = window + i;
        int found = sscanf(must_have(next()), "%u %u %u %u %u", &w->file, &w->top, &w->left,
                           &w->height, &w->width);
        if (found != 5 || w->file >= files) die("not a window");
    }
    jpeg.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&jpeg);
    puts("ready");
    fflush(stdout);

    while ((order = next())) {
        struct tally tally = {0, 0};
        struct timespec begin, end;
        long long nanos;
        int is_full = !strcmp(order, "full");
        if (!is_full && strcmp(order, "crop")) die("full or crop");
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
        for (i = 0; is_full && i < files; i++) full(file + i, &tally);
        for (i = 0; !is_full && i < windows; i++) crop(file + window[i].file, window + i, &tally);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
        nanos = (end.tv_sec - begin.tv_sec) * 1000000000LL + (end.tv_nsec - begin.tv_nsec);
        printf("%lld %llu %llu\n", nanos, tally.decodes, tally.pixels);
        fflush(stdout);
    }
    return 0;
}
