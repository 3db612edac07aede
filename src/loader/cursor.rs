//! The position of a run as a short text, to resume the run in another process.
//!
//! ```json
//! {"fuseloop":1,"dataset":"9c1f...","order":"03ab...","plan":"77e0...","seed":42,"epoch":3,"position":12800}
//! ```
//!
//! Rows and draws are functions of (seed, epoch, sample), so a position in the global order is
//! sufficient: no generator state and no queue is stored. The cursor is the same for any number of
//! workers, and for any number of ranks with the same global batch (batch size times ranks). After a batch it also has
//! the `fingerprint` of that batch, of the rank that took the cursor; this is compared with nothing.

use crate::error::{Error, fail};
use crate::source::Fingerprint;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// The version of the cursor format. Other versions are refused: their numbers may mean something else.
const VERSION: u64 = 1;

/// The maximum length of a text that is parsed.
const MAX_TEXT: usize = 4096;

/// The number of outputs and ops that a cursor has a short fingerprint of: as many as fit into its text.
const PRINTS: usize = 16;

/// The most bytes of a cursor's text.
#[cfg(any(test, all(feature = "spec", feature = "tables", feature = "tar", feature = "write")))]
pub(crate) const MOST_WRITTEN: usize = 512;

/// A position in a run: all rows before it were delivered, none from it on.
///
/// [`Display`](fmt::Display) writes JSON of at most 512 bytes, and [`FromStr`] parses it: PyTorch's
/// `state_dict`.
///
/// ```no_run
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let mut batches = loader.epoch(3)?;
/// batches.next().transpose()?;
/// let cursor = batches.cursor()?;
/// // Later, with a loader of the same dataset and settings: the batches that have not been delivered.
/// let rest = loader.resume(&cursor)?;
/// assert_eq!((cursor.epoch, rest.remaining()), (3, batches.remaining()));
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// The fingerprint of the dataset: [`Source::fingerprint`](crate::source::Source).
    pub dataset: u64,
    /// The fingerprint of the order: its kind, its parameters and its samples.
    pub order: u64,
    /// The fingerprint of the pipelines of the epoch.
    pub plan: u64,
    /// Short fingerprints of the first outputs and ops of the plan, by which an error names the op that has
    /// changed; 0 where there is none.
    pub ops: [u16; 16],
    /// The settings of the clips, by which an error names the one that has changed.
    pub(super) clips: ClipSettings,
    /// Short fingerprints of the settings of a mixture, by which an error names those that have changed; 0 for other
    /// orders.
    pub(super) mixture: [u16; 4],
    /// The loader's seed.
    pub seed: u64,
    /// The epoch.
    pub epoch: u32,
    /// The number of rows of the epoch that were delivered, over all ranks. At the end of a stream of
    /// unknown length: [`UNKNOWN`](crate::sample::UNKNOWN).
    pub position: u64,
    /// The [fingerprint](fuseloop_engine::batch::HostBatch::fingerprint) of the batch that was delivered last, on the rank
    /// that took the cursor. `None` at the beginning of an epoch, and in a cursor of an older release.
    pub fingerprint: Option<u64>,
}

impl Cursor {
    /// Refuses a cursor of another dataset, order, seed or plan than that of `own`, whose outputs and ops
    /// are `plan`. The positions may differ. `orders` names the two orders.
    ///
    /// # Errors
    ///
    /// The first of these that differs.
    pub(super) fn check(
        &self,
        own: &Self,
        plan: &[PlanPrint],
        orders: impl FnOnce() -> (String, String),
    ) -> Result<(), Error> {
        self.check_samples(own, orders)?;
        if self.plan == own.plan {
            return Ok(());
        }
        Err(fail!(
            Cursor,
            "the cursor belongs to another plan: {}: resume with the same pipelines, or start the epoch again",
            self.changed(own, plan)
        ))
    }

    /// Refuses a cursor of other clips, another dataset, order or seed than that of `own`. `orders` names the two orders.
    ///
    /// # Errors
    ///
    /// The first of these that differs.
    pub(super) fn check_samples(
        &self,
        own: &Self,
        orders: impl FnOnce() -> (String, String),
    ) -> Result<(), Error> {
        // First, since clips that are samples of their own make another dataset.
        if let Some(changed) = changed_clips(self.clips.text(), own.clips.text()) {
            return Err(fail!(
                Cursor,
                "the cursor belongs to other clips: {changed}: resume with the same clips, or start the epoch again"
            ));
        }
        let word = |word: u64| format!("{word:016x}");
        let compared = [
            ("dataset", word(self.dataset), word(own.dataset)),
            ("order", word(self.order), word(own.order)),
            ("seed", self.seed.to_string(), own.seed.to_string()),
        ];
        match compared.into_iter().find(|(_, cursor, own)| cursor != own) {
            None => Ok(()),
            // Clips of a dataset have another fingerprint than the dataset.
            Some(("dataset", ..))
                if self.clips.text().is_empty() != own.clips.text().is_empty() =>
            {
                let [was, is] = [self, own].map(|cursor| match cursor.clips.text() {
                    "" => "not set",
                    settings => settings,
                });
                Err(fail!(
                    Cursor,
                    "the cursor belongs to other clips: `clips` was {was} and is {is}: resume with the same clips, or start the \
                     epoch again"
                ))
            }
            Some((what, cursor, own)) => {
                let (cursor, own) = if what == "order" { orders() } else { (cursor, own) };
                Err(fail!(
                    Cursor,
                    "the cursor belongs to another {what}: {cursor}, expected {own}: resume with the same {what}, or start \
                     the epoch again"
                ))
            }
        }
    }

    /// Describes the first output or op that differs from those of `own`, which are `plan`.
    fn changed(&self, own: &Self, plan: &[PlanPrint]) -> String {
        let (known, own) = (known_prints(&self.ops), known_prints(&own.ops));
        if known.is_empty() {
            return "its ops are not known".to_owned();
        }
        let name = |k: usize| plan.get(k).map_or("its outputs", |print| &print.name);
        let equal = known.iter().zip(own).take_while(|(cursor, own)| cursor == own).count();
        let (Some(cursor_next), Some(own_next)) = (known.get(equal), own.get(equal)) else {
            return match known.len().cmp(&own.len()) {
                Ordering::Less => format!("it has no {}", name(equal)),
                Ordering::Greater => format!("it has more after {}", name(equal - 1)),
                Ordering::Equal => format!(
                    "the number rule, the EXIF orientation or what follows the first {PRINTS} ops"
                ),
            };
        };
        // An op that was added or removed moves all after it: these are no others.
        let in_cursor = known[equal..].iter().position(|print| print == own_next);
        let in_own = own[equal..].iter().position(|print| print == cursor_next);
        match (in_cursor, in_own) {
            (Some(_), Some(_)) => format!("{} was at a later place", name(equal)),
            (Some(more), None) if equal > 0 => {
                format!("it has {more} more op(s) or output(s) after {}", name(equal - 1))
            }
            (Some(_), None) => format!("it has others before {}", name(equal)),
            (None, Some(_)) => format!("it has no {}", name(equal)),
            (None, None) => format!("{} was another, or had other parameters", name(equal)),
        }
    }

    /// Returns the first batch that was not delivered, in an epoch of `total` rows in batches of `rows`
    /// rows over all ranks; `None` if the cursor is at the end of the epoch.
    ///
    /// # Errors
    ///
    /// If the position is inside a batch, or beyond the end of the epoch.
    pub(super) fn first_batch(&self, rows: u64, total: u64) -> Result<Option<u64>, Error> {
        let position = self.position;
        if position > total {
            return Err(fail!(
                Cursor,
                "the cursor is at row {position} of an epoch of {total} rows: it belongs to another dataset or is \
                 damaged; start the epoch again"
            ));
        }
        match position.checked_rem(rows) {
            _ if position == total => Ok(None),
            Some(0) => Ok(Some(position / rows)),
            _ => Err(fail!(
                Cursor,
                "the cursor is at row {position} of the epoch, which is not between two batches of {rows} rows: keep \
                 the product of batch size and ranks unchanged"
            )),
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset, order, plan, ops, clips, mixture, seed, epoch, position, fingerprint } =
            self;
        write!(
            f,
            "{{\"fuseloop\":{VERSION},\"dataset\":\"{dataset:016x}\",\"order\":\"{order:016x}\",\
             \"plan\":\"{plan:016x}\",\"seed\":{seed},\"epoch\":{epoch},\"position\":{position}"
        )?;
        let known = ops.iter().rposition(|&print| print != 0).map_or(0, |last| last + 1);
        if known > 0 {
            let prints: String = ops[..known].iter().map(|print| format!("{print:04x}")).collect();
            write!(f, ",\"ops\":\"{prints}\"")?;
        }
        let clips = clips.text();
        if !clips.is_empty() {
            write!(f, ",\"clips\":\"{clips}\"")?;
        }
        if let Some(fingerprint) = fingerprint {
            write!(f, ",\"fingerprint\":\"{fingerprint:016x}\"")?;
        }
        if *mixture != [0; 4] {
            let prints: String = mixture.iter().map(|print| format!("{print:04x}")).collect();
            write!(f, ",\"mixture\":\"{prints}\"")?;
        }
        f.write_str("}")
    }
}

/// Parses JSON with any spacing and order of names; unknown names are ignored.
impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_TEXT {
            let bytes = text.len();
            return Err(fail!(Cursor, "not a cursor: {bytes} bytes, at most {MAX_TEXT} are read"));
        }
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|error| fail!(Cursor, "not a cursor: {error}"))?;
        let number = |name: &str| {
            let found = value.get(name).and_then(serde_json::Value::as_u64);
            found.ok_or_else(|| fail!(Cursor, "not a cursor: the number {name} is missing"))
        };
        let word = |name: &str| {
            let found = value.get(name).and_then(|word| word.as_str());
            let found = found.filter(|word| word.len() == 16);
            let word = found.and_then(|word| u64::from_str_radix(word, 16).ok());
            word.ok_or_else(|| {
                fail!(Cursor, "not a cursor: {name} is missing or not 16 hex digits")
            })
        };
        let fingerprint = value.get("fingerprint").map(|_| word("fingerprint")).transpose();
        let found = number("fuseloop")?;
        if found != VERSION {
            return Err(fail!(
                Cursor,
                "cursor format {found}, this release reads format {VERSION}"
            ));
        }
        let epoch = number("epoch")?;
        let mixture = prints_of("mixture", &value)?;
        let ops = prints_of("ops", &value)?;
        let clips = value.get("clips").and_then(|clips| clips.as_str()).unwrap_or_default();
        let clips = ClipSettings::new(clips).ok_or_else(|| {
            let most = ClipSettings::MOST;
            fail!(Cursor, "not a cursor: clips are no settings of at most {most} bytes")
        })?;
        Ok(Self {
            ops,
            clips,
            mixture,
            dataset: word("dataset")?,
            order: word("order")?,
            plan: word("plan")?,
            seed: number("seed")?,
            epoch: u32::try_from(epoch)
                .map_err(|_| fail!(Cursor, "not a cursor: epoch {epoch} is too large"))?,
            position: number("position")?,
            fingerprint: fingerprint?,
        })
    }
}

/// Returns the short fingerprints that a cursor has by this name; 0 where there are none.
fn prints_of<const N: usize>(name: &str, cursor: &serde_json::Value) -> Result<[u16; N], Error> {
    let mut found = [0; N];
    let prints = cursor.get(name).and_then(|prints| prints.as_str()).unwrap_or_default();
    for (print, digits) in found.iter_mut().zip(prints.as_bytes().chunks(4)) {
        let digits = std::str::from_utf8(digits).ok();
        let parsed = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        *print = parsed.ok_or_else(|| fail!(Cursor, "not a cursor: {name} are not hex digits"))?;
    }
    Ok(found)
}

/// The settings of clips, such as `sampler=random,frames=16`, as a text that zeros follow; zeros without clips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClipSettings([u8; Self::MOST]);

impl ClipSettings {
    const MOST: usize = 160;

    /// No settings.
    pub(super) const NONE: Self = Self([0; Self::MOST]);

    /// Returns the settings, unless they are too long or need escapes in JSON.
    pub(super) fn new(text: &str) -> Option<Self> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.,=+-".contains(&byte);
        let mut bytes = [0; Self::MOST];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        text.bytes().all(is_plain).then_some(Self(bytes))
    }

    pub(super) fn text(&self) -> &str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(Self::MOST);
        std::str::from_utf8(&self.0[..end]).unwrap_or_default()
    }
}

/// Describes the first setting that differs between the clips of a cursor and a loader's own; `None` if there is none, or
/// the settings of one of them are not known.
pub(super) fn changed_clips(cursor: &str, own: &str) -> Option<String> {
    if cursor.is_empty() || own.is_empty() {
        return None;
    }
    fn settings(text: &str) -> impl Iterator<Item = (&str, &str)> {
        text.split(',').filter_map(|setting| setting.split_once('='))
    }
    fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
        settings(text).find(|(known, _)| *known == name).map(|(_, value)| value)
    }
    let names = settings(own).chain(settings(cursor)).map(|(name, _)| name);
    let name = { names }.find(|name| value(cursor, name) != value(own, name))?;
    let [cursor, own] = [cursor, own].map(|text| value(text, name).unwrap_or("not set"));
    Some(format!("`{name}` was {cursor} and is {own}"))
}

/// A short fingerprint of an output or an op, and its name in errors.
#[derive(Clone, Debug)]
pub(super) struct PlanPrint {
    print: u16,
    name: String,
}

impl PlanPrint {
    /// Returns the fingerprint of a text, which is never 0.
    pub(super) fn new(name: String, text: String) -> Self {
        Self { print: (fingerprint([text]) as u16).max(1), name }
    }

    /// Returns the fingerprint and the name, as the header of a log has them.
    pub(super) fn to_json(&self) -> String {
        let name = serde_json::Value::from(&*self.name);
        format!("[\"{:04x}\",{name}]", self.print)
    }

    /// Returns the first fingerprints of a plan.
    pub(super) fn first(plan: &[Self]) -> [u16; PRINTS] {
        std::array::from_fn(|k| plan.get(k).map_or(0, |print| print.print))
    }
}

/// Returns the fingerprints up to the last known one.
fn known_prints(prints: &[u16; PRINTS]) -> &[u16] {
    let known = prints.iter().position(|&print| print == 0);
    &prints[..known.unwrap_or(PRINTS)]
}

/// Returns the fingerprint of a plan, given as texts; each text is hashed with its end.
pub(super) fn fingerprint(texts: impl IntoIterator<Item = String>) -> u64 {
    let mut print = Fingerprint::default();
    texts.into_iter().for_each(|text| print.text(&text));
    print.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURSOR: Cursor = Cursor {
        dataset: 1,
        order: 2,
        plan: u64::MAX,
        ops: [0; PRINTS],
        clips: ClipSettings::NONE,
        mixture: [0; 4],
        seed: 42,
        epoch: 3,
        position: 640,
        fingerprint: None,
    };

    #[test]
    fn a_cursor_is_short_json_and_comes_back() {
        let text = CURSOR.to_string();
        assert_eq!(
            text,
            "{\"fuseloop\":1,\"dataset\":\"0000000000000001\",\"order\":\"0000000000000002\",\
             \"plan\":\"ffffffffffffffff\",\"seed\":42,\"epoch\":3,\"position\":640}"
        );
        assert_eq!(text.parse::<Cursor>().unwrap(), CURSOR);
        let ops = [u16::MAX; PRINTS];
        let clips = ClipSettings::new(&"x".repeat(ClipSettings::MOST)).unwrap();
        let mixture = [u16::MAX; 4];
        let (seed, epoch, position) = (u64::MAX, u32::MAX, u64::MAX);
        let fingerprint = Some(u64::MAX);
        let largest = Cursor { ops, clips, mixture, seed, epoch, position, fingerprint, ..CURSOR };
        let text = largest.to_string();
        assert!(text.len() <= MOST_WRITTEN, "{}", text.len());
        assert_eq!(text.parse::<Cursor>().unwrap(), largest);
        let python = text.replace(':', ": ").replace(',', ", ");
        assert_eq!(python.parse::<Cursor>().unwrap(), largest);
    }

    #[test]
    fn the_fingerprint_of_the_last_batch_may_be_missing() {
        let delivered = Cursor { fingerprint: Some(0xabc), ..CURSOR };
        let text = delivered.to_string();
        assert!(
            text.ends_with(",\"position\":640,\"fingerprint\":\"0000000000000abc\"}"),
            "{text}"
        );
        assert_eq!(text.parse::<Cursor>().unwrap(), delivered);
        // Another batch was delivered, and the position is the same.
        assert!(delivered.check(&CURSOR, &[], Default::default).is_ok());
        for wrong in ["\"abc\"", "7", "\"000000000000000g\""] {
            let text = text.replace("\"0000000000000abc\"", wrong);
            let refused = text.parse::<Cursor>().unwrap_err().to_string();
            assert_eq!(refused, "not a cursor: fingerprint is missing or not 16 hex digits");
        }
    }

    #[test]
    fn the_setting_of_clips_that_has_changed_is_named() {
        let of = |clips: &str| {
            let clips = ClipSettings::new(clips).unwrap_or(ClipSettings::NONE);
            let cursor = Cursor { clips, ..CURSOR };
            assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
            cursor
        };
        let checked = |cursor: &str, own: &str| {
            // Clips that are samples of their own make another dataset.
            let own = Cursor { dataset: 9, ..of(own) };
            let error = of(cursor).check_samples(&own, Default::default).unwrap_err().to_string();
            error.split(": ").nth(1).unwrap().to_owned()
        };
        let (random, own) =
            ("sampler=random,frames=16,stride=4", "sampler=random,frames=16,stride=2");
        assert_eq!(checked(random, own), "`stride` was 4 and is 2");
        assert_eq!(checked(random, "sampler=all,frames=16"), "`sampler` was random and is all");
        assert_eq!(checked(random, "sampler=random,frames=16"), "`stride` was 4 and is not set");
        assert_eq!(checked("sampler=random,frames=16", own), "`stride` was not set and is 2");
        assert_eq!(checked(random, random), "0000000000000001, expected 0000000000000009");
        assert_eq!(checked("", ""), "0000000000000001, expected 0000000000000009");
        // No clips, or none that are known.
        for clips in ["", "sampler=\"random\"", &"x".repeat(ClipSettings::MOST + 1)] {
            assert_eq!(checked(clips, random), format!("`clips` was not set and is {random}"));
            assert_eq!(checked(random, clips), format!("`clips` was {random} and is not set"));
        }
        let text = of(random).to_string().replace("random", "a b");
        let refused = text.parse::<Cursor>().unwrap_err().to_string();
        assert!(refused.contains("clips are no settings"), "{refused}");
    }

    #[test]
    fn what_is_no_cursor_is_refused() {
        let message = |text: &str| text.parse::<Cursor>().unwrap_err().to_string();
        assert!(message("").starts_with("not a cursor: "));
        assert_eq!(message("{}"), "not a cursor: the number fuseloop is missing");
        assert_eq!(message("{\"fuseloop\":2}"), "cursor format 2, this release reads format 1");
        let text = CURSOR.to_string();
        assert_eq!(
            message(&text.replace("000000000000000", "")),
            "not a cursor: dataset is missing or not 16 hex digits"
        );
        assert_eq!(
            message(&text.replace("\"epoch\":3", "\"epoch\":4294967296")),
            "not a cursor: epoch 4294967296 is too large"
        );
        assert_eq!(message(&" ".repeat(5000)), "not a cursor: 5000 bytes, at most 4096 are read");
    }

    #[test]
    fn what_it_is_of_is_compared_by_name() {
        let orders = || ("exact".to_owned(), "quasi-random".to_owned());
        let message = |other| CURSOR.check(&other, &[], orders).unwrap_err().to_string();
        assert!(CURSOR.check(&Cursor { epoch: 0, position: 0, ..CURSOR }, &[], orders).is_ok());
        assert_eq!(
            message(Cursor { dataset: 255, ..CURSOR }),
            "the cursor belongs to another dataset: 0000000000000001, expected 00000000000000ff: resume with the same dataset, or start the epoch again"
        );
        assert_eq!(
            message(Cursor { seed: 7, ..CURSOR }),
            "the cursor belongs to another seed: 42, expected 7: resume with the same seed, or start the epoch again"
        );
        assert_eq!(
            message(Cursor { order: 9, ..CURSOR }),
            "the cursor belongs to another order: exact, expected quasi-random: resume with the same order, or start the epoch again"
        );
        assert!(message(Cursor { plan: 9, ..CURSOR }).contains("its ops are not known"));
    }

    /// A plan of the outputs and ops with these texts, and a cursor in it.
    fn planned(texts: &[&str]) -> (Vec<PlanPrint>, Cursor) {
        let print = |text: &&str| PlanPrint::new((*text).to_owned(), (*text).to_owned());
        let plan: Vec<_> = texts.iter().map(print).collect();
        let whole = fingerprint(texts.iter().map(ToString::to_string));
        let ops = PlanPrint::first(&plan);
        (plan, Cursor { plan: whole, ops, ..CURSOR })
    }

    #[test]
    fn the_op_that_has_changed_is_named() {
        let many: Vec<String> = (0..20).map(|k| format!("op {k}")).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        let changed = |cursor: &[&str], own: &[&str]| {
            let (plan, own) = planned(own);
            let cursor: Cursor = planned(cursor).1.to_string().parse().unwrap();
            cursor.check(&own, &plan, Default::default).unwrap_err().to_string()
        };
        let starts = |text: String, changed: &str| {
            let expected = format!("the cursor belongs to another plan: {changed}: resume with");
            assert!(text.starts_with(&expected), "{text}");
        };
        let (a, b) = ("Flip", "Blur");
        starts(changed(&[a], &[b]), "Blur was another, or had other parameters");
        starts(changed(&[a], &[a, b]), "it has no Blur");
        starts(changed(&[a, b], &[a]), "it has more after Flip");
        // The output after a list that was changed is the same.
        starts(
            changed(&[a, b, "label"], &[a, "label"]),
            "it has 1 more op(s) or output(s) after Flip",
        );
        starts(changed(&[a, "label"], &["label"]), "it has others before label");
        starts(changed(&[a, "label"], &[a, b, "label"]), "it has no Blur");
        starts(changed(&[a, b, "label"], &[b, a, "label"]), "Blur was at a later place");
        let other = "Crop was another, or had other parameters";
        starts(changed(&[a, b, "label"], &[a, "Crop", "label"]), other);
        let before = many.clone();
        many[18] = "Blur";
        let rest = "the number rule, the EXIF orientation or what follows the first 16 ops";
        starts(changed(&before, &many), rest);
    }

    #[test]
    fn a_place_is_between_two_batches_or_at_the_end() {
        assert_eq!(CURSOR.first_batch(64, 1000), Ok(Some(10)));
        assert_eq!(CURSOR.first_batch(64, 640), Ok(None));
        assert!(CURSOR.first_batch(60, 1000).is_err());
        assert!(CURSOR.first_batch(0, 1000).is_err());
        let message = CURSOR.first_batch(64, 639).unwrap_err().to_string();
        assert!(
            message.starts_with("the cursor is at row 640 of an epoch of 639 rows"),
            "{message}"
        );
    }
}
