// A picture through load_mapped into planes of each type: of NVRTC's text only, which is long.
struct Args { const u8* from; u8* to; u64 unused; u32 height, width, row_bytes; i32 map[4]; float gain, shift; };
template <class Element> DEV void planes(const Args& a, void* to)
{
    i32 map[4] = { a.map[0], a.map[1], a.map[2], a.map[3] };
    u32 across = (a.width + 7) / 8;
    for (u32 g = first_group(); g < across * a.height; g += group_step()) {
        u32 y = g / across, x = g % across * 8, bits[3][8];
        Group v;
        load_mapped(a.from + (u64)row_of() * a.row_bytes, (i32)a.height, (i32)a.width, map, (i32)y, (i32)x, v);
        EACH_CHANNEL EACH_PIXEL bits[c][i] = Element::bits(fma_rn(v.v[c][i], a.gain, a.shift));
        store_planes<Element>(to, a.height, a.width, y, x, a.width - x < 8 ? a.width - x : 8, bits);
    }
}
KERNEL(mapped, Args)
{
    u64 plane = (u64)3 * a.height * a.width;
    u8* to = a.to + row_of() * 12 * plane;
    planes<OfU8>(a, to);
    planes<OfF16>(a, to + 2 * plane);
    planes<OfBf16>(a, to + 4 * plane);
    planes<OfF32>(a, to + 8 * plane);
}
