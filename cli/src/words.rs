//! The names that messages of the library have for things of Rust, as users of the command know them.

use std::borrow::Cow;

/// Texts of messages, and what stands for them here. Longer ones come first.
const NAMES: [(&str, &str); 55] = [
    ("`VerifyReport` lists", "`--json` lists"),
    ("`on_damaged` set to skip", "`--on-damaged skip`"),
    (": choose a different output, or set `overwrite: true`", ""),
    (": choose a new folder, or set `overwrite: true`", ""),
    (
        "`to_size((height, width))`, in a pipeline file `to_size = [height, width]`",
        "`to_size = [height, width]` in the pipeline file",
    ),
    ("`to_size((height, width))`", "`to_size = [height, width]` in the pipeline file"),
    ("`to_size` is for images: use `to(max)`", "`to_size` is for images: use `to = max`"),
    ("`to(max)`", "`to = max` in the pipeline file"),
    (", or raise `max_pixels` (LoaderBuilder::limits)", ""),
    (", or raise `max_row_bytes` (LoaderBuilder::limits)", ""),
    (" (`Limits::max_unpacked_bytes`): unpack the shard, or raise the limit", ": unpack the shard"),
    (" (`Limits::max_unpacked_bytes`): unpack the file, or raise the limit", ": unpack the file"),
    (" (`Limits::max_unpacked_bytes`)", ""),
    (", or implement `Source::longest`", ""),
    (": fix `Source::longest`", ""),
    (
        ", from a `.tif` member of a tar shard whose field is declared as `As::NdArray`",
        ", in a program",
    ),
    (
        "choose them (`clips`, such as 16 frames of each)",
        "choose them (`[clips]` in the pipeline file)",
    ),
    ("name it (`Clips::field`)", "name it (`field` of `[clips]`)"),
    ("read it with `Collate::of`", "give it a `dtype` in `[collate]` of the pipeline file"),
    ("Normalize::unit, or scale = \"unit\"", "scale = \"unit\""),
    ("Normalize::levels, or scale = \"levels\"", "scale = \"levels\""),
    ("Normalize::values, or scale = \"values\"", "scale = \"values\""),
    ("put Levels::of(black, white) before it", "put `Levels` before it"),
    ("put Convert::to(DType::F32) before it", "put `Convert` to f32 before it"),
    ("RandomCrop::new((1, length))", "`RandomCrop` with size = [1, length]"),
    (
        "Interpolation::Nearest or WarpInterpolation::Nearest (interpolation = \"nearest\")",
        "interpolation = \"nearest\"",
    ),
    ("`OnDamaged::Skip`", "on_damaged = \"skip\""),
    ("OnDamaged::Substitute", "on_damaged = \"substitute\""),
    ("NumberRule::Exact", "number_rule = \"exact\""),
    (", or with `WriteMode::Mask`", ""),
    (" (`Loader::classes`)", ""),
    ("`Loader::explain` counts", "`fuseloop explain` counts"),
    (", or `YoloOptions::keypoints`", ""),
    ("; a program can name their folder in `Annotated::coco`", ""),
    ("`, `WriteOptions::rename`", "`"),
    ("; in a program, declare it in `OpenOptions::custom_fields`", ""),
    (
        "shuffle the stream itself (`Stream::shuffle`), or open it by an index",
        "unpack its shards first",
    ),
    ("take `Stream::filter`, `take` or `skip`, or open it by an index", "unpack its shards first"),
    ("use `Stream::cache_in_memory` before the shuffle", "unpack its shards first"),
    ("cut it to one (`Stream::with_epoch`, `take`), or give", "give"),
    (": list features in `TfOptions`", ""),
    ("`drop_last(false)`", "`drop_last = false` in the pipeline file"),
    (
        "set `auto_targets()`, or `Targets::mask` in `targets`; in a pipeline file `targets = \"auto\"`",
        "set `targets = \"auto\"` in the pipeline file",
    ),
    (
        "set `Targets::mask` in `targets`; in a pipeline file `\"mask\"` in the table of the image in `[targets]`",
        "set it to `\"mask\"` in the table of the image in `[targets]` of the pipeline file",
    ),
    ("; a list of its own needs `share_draws` with the image, and the same random ops", ""),
    ("set `split`, such as to", "set `--split`, such as to"),
    ("name one by `split`", "name one by `--split`"),
    ("set `label` to", "set `--label` to"),
    ("set `image` to one of", "set `--image` to one of"),
    ("set `delimiter`", "set `--delimiter`"),
    ("set `quotes` to", "set `--quotes true` to"),
    ("`start_field` and `end_field` are of", "`--start-field` and `--end-field` are of"),
    ("name it by `video`", "name it by `--video`"),
    ("`links` is only for these", "`--links` is only for these"),
    ("`label`, `classes` and the column options", "`--label`, `--classes` and the column options"),
];

/// Returns a message of the library in the words of the command.
pub(super) fn in_command(message: &str) -> Cow<'_, str> {
    let mut message = Cow::Borrowed(message);
    for (rust, here) in NAMES {
        if message.contains(rust) {
            message = Cow::Owned(message.replace(rust, here));
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    /// Files whose texts are code, reports of defects, or tests.
    const OTHERS: [&str; 8] =
        ["device/codegen", "/cuda/", "fuzzing", "tests", "oracle", "predict", "fakes", "internals"];

    /// Returns the Rust files below a folder.
    fn files(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                files(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }

    /// Returns the texts of a line of code: all that stands between quotes. Two texts of a line are two.
    fn texts(line: &str) -> Vec<String> {
        let plain = line.replace("\\\"", "\u{1}");
        let parts = plain.split('"').skip(1).step_by(2);
        parts.map(|part| part.replace('\u{1}', "\"")).collect()
    }

    /// Returns true if a text with words names something of Rust: a path that begins with a type, or a method's call.
    fn speaks_rust(text: &str) -> bool {
        let paths = text.match_indices("::").any(|(at, _)| {
            let before = text[..at].rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
            let after = text[at + 2..].chars().next().is_some_and(char::is_alphabetic);
            before.starts_with(char::is_uppercase) && after
        });
        text.contains(' ')
            && !text.contains("=>")
            && (paths || text.contains("`to(") || text.contains("`to_size("))
    }

    #[test]
    fn settings_of_folders_are_named_by_their_options() {
        let of = |text| in_command(text).into_owned();
        let split = "photos: its folders are splits of a dataset (train, val): set `split`, such as to `train`, or";
        assert!(of(split).contains(": set `--split`, such as to `train`, or"));
        assert_eq!(
            of("set `label` to `none`, or to `folder`"),
            "set `--label` to `none`, or to `folder`"
        );
        assert_eq!(of("columns: set `delimiter`"), "columns: set `--delimiter`");
        assert_eq!(of("set `quotes` to read it"), "set `--quotes true` to read it");
    }

    #[test]
    fn no_message_of_the_library_has_a_name_that_only_rust_has() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let (mut found, mut all, mut left) = (vec![], 0, vec![]);
        for dir in ["src", "ops/src", "engine/src", "cli/src"] {
            files(&root.join(dir), &mut found);
        }
        for path in found {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            if OTHERS.iter().any(|other| name.contains(other)) || name == "cli/src/words.rs" {
                continue;
            }
            let code = fs::read_to_string(&path).unwrap();
            let code = code.split("#[cfg(test)]\nmod ").next().unwrap();
            // A backslash at the end of a line continues its text.
            let joined: Vec<&str> = code.split("\\\n").map(str::trim_start).collect();
            let joined = joined.concat();
            // Comments, messages of panics, and code between two quotes of characters.
            let is_other = |line: &str| {
                line.trim_start().starts_with("//")
                    || ["expect(", "reason = "].iter().any(|other| line.contains(other))
            };
            for line in joined.lines().filter(|line| !is_other(line)) {
                for text in texts(line).into_iter().filter(|text| speaks_rust(text)) {
                    all += 1;
                    if speaks_rust(&in_command(&text)) {
                        left.push((name.clone(), text));
                    }
                }
            }
        }
        assert!(left.is_empty(), "give them a name in `NAMES` of words.rs: {left:#?}");
        assert!(all > 20, "{all}");
    }
}
