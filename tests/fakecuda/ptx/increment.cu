// out[i] = in[i] + 1: what tests of the driver run.
struct Args { const u32* from; u32* to; u32 count; };
KERNEL(increment, Args)
{
    for (u32 i = first_group(); i < a.count; i += group_step()) a.to[i] = load_word(a.from + i) + 1;
}
