//! The clips of videos that are the samples, as data: see [`Clips`].
//!
//! ```toml
//! [clips]
//! sampler = "random"
//! frames = 16
//! stride = 4
//! ```
//!
//! | name | default | what it is |
//! |---|---|---|
//! | `sampler` | required | `"random"`, `"regular"`, `"segments"` or `"all"` |
//! | `frames` | required | the frames of a clip |
//! | `clips` | 1 | the clips of a sample |
//! | `stride` | 1 | the frames from one frame of a clip to the next |
//! | `fps` | none | frames per second, instead of `stride` |
//! | `range` | all | the seconds that the frames are from: `[start, end]` |
//! | `start_field` | none | the field with the second from which on frames of each video are chosen |
//! | `end_field` | none | the field with the second before which frames of each video are chosen |
//! | `on_short` | `"repeat_last"` | the frames that a video is too short for; also `"wrap"` and `"error"`, the only one for `segments` |
//! | `middle` | false | whether `segments` have their middle frames |
//! | `per_frame` | false | whether ops draw for each frame |
//! | `layout` | `"NTCHW"` | the order of the axes; also `"NCTHW"` |
//! | `source_fps` | none | the frames per second of folders of frames, which `fps` and `range` need |
//! | `field` | the only field of images | the field that has the frames |
//! | `list` | all videos | the file that lists the videos |

use crate::loader::Clips;
use crate::loader::clips::{CLIP_LAYOUTS, ON_SHORT};
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecError, SpecTable, names_of, optional, required,
};

/// Makes clips of a number of frames.
type MakeClips = fn(usize) -> Clips;

const SAMPLERS: [(&str, MakeClips); 4] = [
    ("random", Clips::random),
    ("regular", Clips::regular),
    ("segments", Clips::segments),
    ("all", Clips::all),
];

const PARAMS: &[ParamInfo] = &[
    required(
        "sampler",
        ParamKind::Word(&names_of(&SAMPLERS)),
        ParamValue::Word("random"),
        "how the frames are chosen",
    ),
    required("frames", ParamKind::Whole, ParamValue::Int(16), "the frames of a clip"),
    optional("clips", ParamKind::Whole, "the clips of a sample"),
    optional("stride", ParamKind::Whole, "the frames from one frame of a clip to the next"),
    optional("fps", ParamKind::Number, "frames per second of a clip, instead of `stride`"),
    optional("range", ParamKind::Range, "the seconds that the frames are from"),
    optional("start_field", ParamKind::Text, "the field with the first second of each video"),
    optional("end_field", ParamKind::Text, "the field with the last second of each video"),
    optional(
        "on_short",
        ParamKind::Word(&names_of(&ON_SHORT)),
        "the frames that a video is too short for",
    ),
    optional("middle", ParamKind::Bool, "take the middle frame of each segment"),
    optional("per_frame", ParamKind::Bool, "draw for each frame"),
    optional("layout", ParamKind::Word(&names_of(&CLIP_LAYOUTS)), "the order of the axes"),
    optional("source_fps", ParamKind::Number, "frames per second of folders of frames"),
    optional("field", ParamKind::Text, "the field that has the frames"),
    optional("list", ParamKind::Text, "the file that lists the videos"),
];

/// Returns the clips of a `[clips]` table.
pub(super) fn of_table(table: &SpecTable) -> Result<Clips, SpecError> {
    OpArgs::with("clips", PARAMS, table, None, of_args)
}

fn of_args(args: &OpArgs<'_>) -> Result<Clips, SpecError> {
    let mut clips = args.choice("sampler", &SAMPLERS)?(args.usize("frames")?);
    if let Some(count) = args.if_given("clips", OpArgs::usize)? {
        clips = clips.clips(count);
    }
    if let Some(frames) = args.if_given("stride", OpArgs::u32)? {
        clips = clips.stride(frames);
    }
    if let Some(fps) = args.if_given("fps", OpArgs::float)? {
        clips = clips.fps(fps);
    }
    if let Some((start, end)) = args.if_given("range", OpArgs::pair)? {
        clips = clips.range(start, end);
    }
    if let Some(name) = args.if_given("start_field", OpArgs::text)? {
        clips = clips.start_field(&name);
    }
    if let Some(name) = args.if_given("end_field", OpArgs::text)? {
        clips = clips.end_field(&name);
    }
    if let Some(what) = args.if_given("on_short", |args, name| args.choice(name, &ON_SHORT))? {
        clips = clips.on_short(what);
    }
    if let Some(is_middle) = args.if_given("middle", OpArgs::bool)? {
        clips = clips.middle(is_middle);
    }
    if let Some(per_frame) = args.if_given("per_frame", OpArgs::bool)? {
        clips = clips.per_frame(per_frame);
    }
    if let Some(layout) = args.if_given("layout", |args, name| args.choice(name, &CLIP_LAYOUTS))? {
        clips = clips.layout(layout);
    }
    if let Some(fps) = args.if_given("source_fps", OpArgs::float)? {
        clips = clips.source_fps(fps);
    }
    if let Some(list) = args.if_given("list", OpArgs::text)? {
        clips = clips.list(list);
    }
    let field = args.if_given("field", OpArgs::text)?;
    Ok(match field {
        Some(field) => clips.field(&field),
        None => clips,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::{ClipLayout, OnShort};
    use crate::spec::Spec;

    #[test]
    fn a_table_has_all_settings_of_clips() {
        let read = |text: &str| text.parse::<Spec>().map(|spec| spec.settings().clips.clone());
        let random = read("[clips]\nsampler = 'random'\nframes = 16\nstride = 4").unwrap();
        assert_eq!(random, Some(Clips::random(16).stride(4)));
        let text = "[clips]\nsampler = 'regular'\nframes = 8\nclips = 3\nfps = 12.5\nrange = [1, 9.5]\n\
                    on_short = 'wrap'\nper_frame = true\nlayout = 'NCTHW'\nsource_fps = 25\nfield = 'frame'\nlist = 'a.txt'";
        let regular = Clips::regular(8).clips(3).fps(12.5).range(1.0, 9.5).per_frame(true);
        let regular = regular.on_short(OnShort::Wrap).layout(ClipLayout::Ncthw).source_fps(25.0);
        assert_eq!(read(text).unwrap(), Some(regular.field("frame").list("a.txt")));
        let part = "[clips]\nsampler = 'all'\nframes = 8\nstart_field = 'from'\nend_field = 'to'";
        assert_eq!(read(part).unwrap(), Some(Clips::all(8).start_field("from").end_field("to")));
        let middle = read("[clips]\nsampler = 'segments'\nframes = 8\nmiddle = true").unwrap();
        assert_eq!(middle, Some(Clips::segments(8).middle(true)));
        let refused = |text: &str| read(text).unwrap_err().to_string();
        let both = read("[clips]\nsampler = 'all'\nframes = 8\nstride = 2\nfps = 3").unwrap();
        assert_eq!(both, Some(Clips::all(8).stride(2).fps(3.0)));
        let unknown = refused("[clips]\nsampler = 'any'\nframes = 8");
        assert!(unknown.contains("sampler"), "{unknown}");
        assert!(refused("[clips]\nsampler = 'all'").contains("frames"));
    }
}
