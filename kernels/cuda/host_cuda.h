// The device's part of fuseloop.cuh, for a host's C++ compiler: tests run the very source of a
// kernel this way, one thread after another. There is no shared memory and no barrier to stand for.
//
// KERNEL(name, Arguments) also makes the function a test calls:
//   int name(const void* arguments, u32 rows, u32 parts, u32 threads, u32 backwards)
// and `name_bytes`, how long the arguments are. It gives how many accesses were not aligned as a
// device asks for: each would be a fault there.
#include <cmath>
#include <cstdint>
#include <cstring>

struct Dim3 { u32 x, y, z; };
static thread_local Dim3 threadIdx, blockIdx, blockDim, gridDim;
static thread_local u32 host_misaligned;

#define DEV static inline
#define MEMBER static inline
#define UNROLL
#define KERNEL(name, Arguments)                                                                    \
    static void name##_thread(const Arguments& a);                                                 \
    extern "C" u32 name##_bytes() { return (u32)sizeof(Arguments); }                               \
    extern "C" int name(const void* arguments, u32 rows, u32 parts, u32 threads, u32 backwards)    \
    {                                                                                              \
        Arguments a;                                                                               \
        std::memcpy(&a, arguments, sizeof a);                                                      \
        host_misaligned = 0;                                                                       \
        gridDim = Dim3{rows, parts, 1}, blockDim = Dim3{threads, 1, 1};                            \
        u64 all = (u64)rows * parts * threads;                                                     \
        for (u64 k = 0; k < all; k++) {                                                            \
            u64 n = backwards ? all - 1 - k : k;                                                   \
            threadIdx.x = (u32)(n % threads);                                                      \
            blockIdx = Dim3{(u32)(n / threads % rows), (u32)(n / threads / rows), 0};              \
            name##_thread(a);                                                                      \
        }                                                                                          \
        return (int)host_misaligned;                                                               \
    }                                                                                              \
    static void name##_thread(const Arguments& a)

struct alignas(16) V16 { u32 x, y, z, w; };
struct alignas(8) V8 { u32 x, y; };

DEV u32 row_of() { return blockIdx.x; }
DEV u32 first_group() { return blockIdx.y * blockDim.x + threadIdx.x; }
DEV u32 group_step() { return gridDim.y * blockDim.x; }

DEV const void* aligned(const void* p, u32 bytes)
{
    if ((uintptr_t)p % bytes) host_misaligned++;
    return p;
}
DEV u32 load_word(const void* p) { u32 v; std::memcpy(&v, aligned(p, 4), 4); return v; }
DEV u32 load_byte(const void* p) { return *(const u8*)p; }
DEV void store16(void* p, V16 v) { aligned(p, 16); std::memcpy(p, &v, 16); }
DEV void store8(void* p, V8 v) { aligned(p, 8); std::memcpy(p, &v, 8); }
DEV u32 shift_pair(u32 low, u32 high, u32 bits) { return (u32)((((u64)high << 32) | low) >> (bits & 31)); }
DEV void add_to(u64* sum, u64 more) { *sum += more; }

DEV u32 bits_of(float v) { u32 u; std::memcpy(&u, &v, 4); return u; }
DEV float float_of(u32 bits) { float v; std::memcpy(&v, &bits, 4); return v; }
DEV double double_of(u32 low, u32 high) { u64 u = (u64)high << 32 | low; double v; std::memcpy(&v, &u, 8); return v; }

DEV float add_rn(float a, float b) { return a + b; }
DEV float sub_rn(float a, float b) { return a - b; }
DEV float mul_rn(float a, float b) { return a * b; }
DEV float div_rn(float a, float b) { return a / b; }
DEV float fma_rn(float a, float b, float c) { return fmaf(a, b, c); }
DEV float sqrt_rn(float a) { return sqrtf(a); }
DEV double add_rn(double a, double b) { return a + b; }
DEV double mul_rn(double a, double b) { return a * b; }
DEV float truncated(float a) { return truncf(a); }
DEV float floored(float a) { return floorf(a); }
DEV float rounded(float a) { return nearbyintf(a); }
// Stops at the ends of i32, and 0 for what is no number, as the device has it.
DEV i32 int_of(float a)
{
    if (a != a) return 0;
    if (a >= 2147483648.0f) return 2147483647;
    if (a < -2147483648.0f) return (i32)0x80000000u;
    return (i32)a;
}
DEV float float_of_int(i32 a) { return (float)a; }
DEV float float_of_i64(i64 a) { return (float)a; }
DEV i32 int_of(double a) { return (i32)a; }

// To nearest even, with infinities and subnormals: as cvt.rn.f16.f32.
DEV u16 f16_bits(float v)
{
    u32 x = bits_of(v), sign = (x >> 16) & 0x8000u, a = x & 0x7fffffffu;
    if (a > 0x7f800000u) return 0x7fff;
    if (a >= 0x477ff000u) return (u16)(sign | 0x7c00u);
    if (a < 0x33000001u) return (u16)sign;
    u32 e = a >> 23, m = (a & 0x7fffffu) | 0x800000u;
    u32 shift = e < 113 ? 126 - e : 13;
    u32 h = e < 113 ? 0 : (e - 112) << 10;
    u32 q = e < 113 ? m >> shift : (m & 0x7fffffu) >> 13;
    u32 rest = (e < 113 ? m : m & 0x7fffffu) & ((1u << shift) - 1u), half = 1u << (shift - 1);
    h += q;
    if (rest > half || (rest == half && (h & 1u))) h++;
    return (u16)(sign | h);
}
DEV float f16_value(u16 h)
{
    u32 sign = (u32)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
    if (e == 31) return float_of(sign | 0x7f800000u | m << 13);
    float v = e ? float_of((e + 112) << 23 | m << 13) : (float)m * float_of(103u << 23);
    return float_of(sign | bits_of(v));
}
