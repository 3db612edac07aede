#ifndef FUSELOOP_H
#define FUSELOOP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the functions return. fuseloop_last_error() has the text. */
enum {
    FUSELOOP_OK = 0,
    FUSELOOP_ARGUMENT = 1, /* an argument is wrong, or the list does not fit the image */
    FUSELOOP_IMAGE = 2,    /* the image file is damaged, or of no known format */
    FUSELOOP_OBJECT = 3,   /* the object file is damaged, of another version, or not for this CPU */
    FUSELOOP_MEMORY = 4,   /* the system has no memory for the image, or the image is too large */
    FUSELOOP_BUG = 5       /* please report the text */
};

/* The type of an element. */
enum {
    FUSELOOP_U8 = 0, FUSELOOP_U16 = 1, FUSELOOP_I16 = 2, FUSELOOP_I32 = 3, FUSELOOP_I64 = 4,
    FUSELOOP_F16 = 5, FUSELOOP_BF16 = 6, FUSELOOP_F32 = 7, FUSELOOP_F64 = 8
};

/* The list of an object file. */
typedef struct fuseloop_list fuseloop_list;

/* A list that is ready to be called, and the memory of its calls. */
typedef struct fuseloop_context fuseloop_context;

/* What random ops draw from: a loader with this seed gives this sample the same array. `field` is the index of the image's
   field in the dataset. */
typedef struct {
    uint64_t seed;
    uint64_t sample;
    uint32_t epoch;
    uint32_t field;
} fuseloop_key;

/* An array: its bytes, its shape, the number of its axes, and the type of its elements. It is row-major, without gaps. */
typedef struct {
    size_t bytes;
    size_t shape[3];
    uint32_t axes;
    uint32_t dtype;
} fuseloop_array;

/* Checks a list against this CPU and this library, and sets `*context`, or NULL after an error. */
int fuseloop_open(const fuseloop_list *list, uint64_t header, fuseloop_context **context);

/* Frees a context that no call uses. NULL is fine. */
void fuseloop_close(fuseloop_context *context);

/* Runs the list on an image of bytes [height, width, channels], whose rows begin `stride` bytes apart, and writes the array
   to `out`, which has exactly `out_bytes` and the alignment of an element. If `out` is NULL, nothing is run. `*array` gets
   the shape; it may be NULL. Threads may call one context at once. */
int fuseloop_apply_pixels(const fuseloop_context *context, const uint8_t *pixels, size_t height, size_t width,
                          size_t channels, size_t stride, fuseloop_key key, void *out, size_t out_bytes,
                          fuseloop_array *array);

/* The same for the bytes of an image file, such as a JPEG or a PNG. Only the part that the list needs is decoded. */
int fuseloop_apply_file(const fuseloop_context *context, const uint8_t *file, size_t file_bytes, fuseloop_key key,
                        void *out, size_t out_bytes, fuseloop_array *array);

/* The text of the last error of this thread, until its next call of a function here. */
const char *fuseloop_last_error(void);

/* The version of the library. */
const char *fuseloop_version(void);

#ifdef __cplusplus
}
#endif

#endif
