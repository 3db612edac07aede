// What generated kernels are written in. Needs no CUDA header, so that NVRTC alone compiles it; the
// host's C++ compiler does too, with host_cuda.h in the device's place, and gives the same bits:
// every rounding is spelled out, and nothing is fused that is not written as fma_rn.
//
// A kernel is KERNEL(name, Arguments) { .. }: one struct by value, grid (rows, parts), block (256).
// Memory is little-endian words; the host wrote every offset that kernels go by.

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#if defined(__CUDACC_RTC__) || defined(__CUDA_ARCH__)

#define DEV static __device__ __forceinline__
#define KERNEL(name, Arguments) \
    extern "C" __global__ void __launch_bounds__(256) name(const __grid_constant__ Arguments a)
#define MEMBER static __device__ __forceinline__
#define UNROLL _Pragma("unroll")

struct __align__(16) V16 { u32 x, y, z, w; };
struct __align__(8) V8 { u32 x, y; };

DEV u32 row_of() { return blockIdx.x; }
DEV u32 first_group() { return blockIdx.y * blockDim.x + threadIdx.x; }
DEV u32 group_step() { return gridDim.y * blockDim.x; }

DEV u32 load_word(const void* p) { return __ldg((const u32*)p); }
DEV u32 load_byte(const void* p) { return __ldg((const u8*)p); }
DEV void store16(void* p, V16 v) { *(V16*)p = v; }
DEV void store8(void* p, V8 v) { *(V8*)p = v; }
DEV u32 shift_pair(u32 low, u32 high, u32 bits) { return __funnelshift_r(low, high, bits); }
DEV void add_to(u64* sum, u64 more) { atomicAdd(sum, more); }

DEV u32 bits_of(float v) { return __float_as_uint(v); }
DEV float float_of(u32 bits) { return __uint_as_float(bits); }
DEV double double_of(u32 low, u32 high) { return __hiloint2double((int)high, (int)low); }

DEV float add_rn(float a, float b) { return __fadd_rn(a, b); }
DEV float sub_rn(float a, float b) { return __fsub_rn(a, b); }
DEV float mul_rn(float a, float b) { return __fmul_rn(a, b); }
DEV float div_rn(float a, float b) { return __fdiv_rn(a, b); }
DEV float fma_rn(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEV float sqrt_rn(float a) { return __fsqrt_rn(a); }
DEV double add_rn(double a, double b) { return __dadd_rn(a, b); }
DEV double mul_rn(double a, double b) { return __dmul_rn(a, b); }
DEV float truncated(float a) { return truncf(a); }
DEV float floored(float a) { return floorf(a); }
DEV float rounded(float a) { return rintf(a); }
DEV i32 int_of(float a) { return __float2int_rz(a); }
DEV float float_of_int(i32 a) { return __int2float_rn(a); }
DEV float float_of_i64(i64 a) { return __ll2float_rn(a); }
DEV i32 int_of(double a) { return __double2int_rz(a); }

DEV u16 f16_bits(float v) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v)); return h; }
DEV float f16_value(u16 h) { float v; asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(h)); return v; }

#else
#include "host_cuda.h"
#endif

// Of a NaN the sign and the top bits stay, and it stays one: as the `half` crate has it.
DEV u16 bf16_bits(float v)
{
    u32 u = bits_of(v);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (u16)((u >> 16) | 0x40u);
    return (u16)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
DEV float bf16_value(u16 h) { return float_of((u32)h << 16); }

// 0..=255, as fuseloop_ops::clamp has it; then a whole level, ties to even.
DEV float lesser(float a, float b) { return a < b ? a : b; }
DEV float larger(float a, float b) { return b < a ? a : b; }
DEV float clamped(float v) { return larger(lesser(v, 255.0f), 0.0f); }
DEV float level(float v) { return rounded(clamped(v)); }

// Eight pixels that lie side by side.
struct Group { float v[3][8]; };

#define EACH_CHANNEL UNROLL for (int c = 0; c < 3; c++)
#define EACH_PIXEL UNROLL for (int i = 0; i < 8; i++)

// Eight pixels from `p` on: seven words and a shift, whatever `p` is a multiple of. Up to seven
// bytes behind them are read: there always lies a sample's record.
DEV void load_group(const u8* p, Group& g)
{
    u32 off = (u32)((u64)p & 3u);
    const u8* q = p - off;
    u32 w[7];
    UNROLL for (int i = 0; i < 7; i++) w[i] = load_word(q + 4 * i);
    UNROLL for (int i = 0; i < 6; i++) w[i] = shift_pair(w[i], w[i + 1], off * 8u);
    UNROLL for (int i = 0; i < 24; i++) g.v[i % 3][i / 3] = (float)((w[i / 4] >> (8 * (i % 4))) & 0xffu);
}

DEV void mirror_group(Group& g)
{
    EACH_CHANNEL UNROLL for (int i = 0; i < 4; i++) {
        float t = g.v[c][i];
        g.v[c][i] = g.v[c][7 - i];
        g.v[c][7 - i] = t;
    }
}

DEV i32 within(i32 v, i32 low, i32 high) { return v < low ? low : v > high ? high : v; }

// Pixels (y, x..x+8) of the picture that `map` makes of the source: row = map[0] * y + map[1],
// column = map[2] * x + map[3]. What is not in the source is some other pixel of it: something is
// painted over that, always.
DEV void load_mapped(const u8* pixels, i32 height, i32 width, const i32* map, i32 y, i32 x, Group& g)
{
    i32 row = within(map[0] * y + map[1], 0, height - 1);
    i32 first = map[2] * x + map[3];
    i32 low = map[2] < 0 ? first - 7 : first;
    const u8* line = pixels + (u64)row * (u64)width * 3u;
    if (low >= 0 && low + 8 <= width) {
        load_group(line + 3 * low, g);
        if (map[2] < 0) mirror_group(g);
    } else {
        EACH_PIXEL {
            const u8* p = line + 3 * within(first + map[2] * i, 0, width - 1);
            EACH_CHANNEL g.v[c][i] = (float)load_byte(p + c);
        }
    }
}

// The sum that the threads of an earlier kernel made.
DEV i64 sum_at(const u64* sum) { return (i64)*sum; }

// What a record says of how its row is mixed: see record.rs.
struct Mix { u32 how, partner; i32 x0, x1, y0, y1; float own, rest; };
DEV Mix mix_at(const u8* m)
{
    Mix mix = { load_word(m), load_word(m + 4), (i32)load_word(m + 16), (i32)load_word(m + 20),
        (i32)load_word(m + 24), (i32)load_word(m + 28), float_of(load_word(m + 8)), float_of(load_word(m + 12)) };
    return mix;
}
// Whether any of pixels (y, x..x+8) is mixed.
DEV bool is_mixed(const Mix& mix, i32 y, i32 x)
{
    if (mix.how < 2u) return mix.how == 1u;
    return y >= mix.y0 && y < mix.y1 && x + 8 > mix.x0 && x < mix.x1;
}
// As MixUp::eval has it.
DEV float blended(const Mix& mix, float own, float partner)
{
    return add_rn(mul_rn(partner, mix.rest), mul_rn(own, mix.own));
}

// One element as it is stored, its value, and what MixUp makes of two. `m` is the record's part.
struct OfU8 {
    typedef u8 Stored;
    MEMBER u32 bits(float v) { return (u32)int_of(level(v)); }
    MEMBER float value(u32 bits) { return (float)bits; }
    MEMBER u32 mixed(const u8* m, const Mix&, u32 own, u32 partner)
    {
        double share = double_of(load_word(m + 32), load_word(m + 36));
        double rest = double_of(load_word(m + 40), load_word(m + 44));
        return (u32)int_of(add_rn(mul_rn(share, (double)own), mul_rn(rest, (double)partner)));
    }
};
struct OfF16 {
    typedef u16 Stored;
    MEMBER u32 bits(float v) { return f16_bits(v); }
    MEMBER float value(u32 bits) { return f16_value((u16)bits); }
    MEMBER u32 mixed(const u8*, const Mix& mix, u32 own, u32 partner) { return bits(blended(mix, value(own), value(partner))); }
};
struct OfBf16 {
    typedef u16 Stored;
    MEMBER u32 bits(float v) { return bf16_bits(v); }
    MEMBER float value(u32 bits) { return bf16_value((u16)bits); }
    MEMBER u32 mixed(const u8*, const Mix& mix, u32 own, u32 partner) { return bits(blended(mix, value(own), value(partner))); }
};
struct OfF32 {
    typedef u32 Stored;
    MEMBER u32 bits(float v) { return bits_of(v); }
    MEMBER float value(u32 bits) { return float_of(bits); }
    MEMBER u32 mixed(const u8*, const Mix& mix, u32 own, u32 partner) { return bits(blended(mix, value(own), value(partner))); }
};

// Stores `N` elements whose bits are `bits`, side by side from `to` on. `whole`: `to` is a multiple
// of as many bytes as they are, or of 16.
template <class Element, int N> DEV void store_run(typename Element::Stored* to, const u32* bits, bool whole)
{
    const int size = sizeof(typename Element::Stored), per = 4 / size;
    if (!whole) {
        UNROLL for (int i = 0; i < N; i++) to[i] = (typename Element::Stored)bits[i];
        return;
    }
    u32 w[N * size / 4];
    UNROLL for (int i = 0; i < N * size / 4; i++) {
        w[i] = 0;
        UNROLL for (int k = 0; k < per; k++) w[i] |= bits[per * i + k] << (32 / per * k % 32);
    }
    if (N * size % 16 == 0) {
        UNROLL for (int i = 0; i < N * size / 16; i++) {
            V16 v = { w[4 * i], w[4 * i + 1], w[4 * i + 2], w[4 * i + 3] };
            store16((u8*)to + 16 * i, v);
        }
    } else {
        UNROLL for (int i = 0; i < N * size / 8; i++) {
            V8 v = { w[2 * i], w[2 * i + 1] };
            store8((u8*)to + 8 * i, v);
        }
    }
}

// Stores pixels (y, x..x+8) of a picture of `height` rows and `width` columns at `to`, of which
// only the first `count` are there.
template <class Element> DEV void store_planes(void* to, u32 height, u32 width, u32 y, u32 x, u32 count, const u32 bits[3][8])
{
    typedef typename Element::Stored T;
    bool whole = width % 8u == 0;
    EACH_CHANNEL {
        T* row = (T*)to + ((u64)c * height + y) * width + x;
        if (count == 8) store_run<Element, 8>(row, bits[c], whole);
        else EACH_PIXEL if (i < (int)count) row[i] = (T)bits[c][i];
    }
}

template <class Element> DEV void store_pixels(void* to, u32 width, u32 y, u32 x, u32 count, const u32 bits[3][8])
{
    typedef typename Element::Stored T;
    T* row = (T*)to + ((u64)y * width + x) * 3u;
    u32 run[24];
    UNROLL for (int i = 0; i < 24; i++) run[i] = bits[i % 3][i / 3];
    if (count == 8) store_run<Element, 24>(row, run, width % 8u == 0);
    else UNROLL for (int i = 0; i < 24; i++) if (i < 3 * (int)count) row[i] = (T)run[i];
}
