// Eight pixels a thread, from any place on; picked out of a thread's own memory, summed, stored.
struct Args { const u8* from; u8* to; u64* sum; u32 groups, first; };
KERNEL(pixels, Args)
{
    const u8* row = a.from + row_of() * 24 * a.groups;
    for (u32 g = first_group(); g < a.groups; g += group_step()) {
        Group v;
        load_group(row + 24 * g + (a.first & 3u), v);
        u32 bits[3][8];
        u64 sum = 0;
        EACH_CHANNEL {
            float own[8];
            EACH_PIXEL own[i] = add_rn(v.v[c][i], (float)c);
            EACH_PIXEL bits[c][i] = OfU8::bits(own[(i + a.first) & 7u]);
            EACH_PIXEL sum += bits[c][i];
        }
        add_to(a.sum, sum);
        store_pixels<OfU8>(a.to + row_of() * 24 * a.groups, 8 * a.groups, 0, 8 * g, g + 1 == a.groups ? 5 : 8, bits);
    }
}
