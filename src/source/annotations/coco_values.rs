//! Values of COCO's JSON: scalars, lists of numbers and segmentations, with what is wrong with them.

use super::{FARTHEST, MOST_POINTS};
use serde_core::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;

/// The most bytes of a text that an error shows.
const MOST_SHOWN: usize = 80;

/// A scalar of the file, or the kind of what there is instead of one.
#[derive(Debug)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Box<str>),
    Other(&'static str),
}

/// Shows a scalar in an error; a long text is cut.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{:?}", shortened(text)),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// Returns the beginning of a text.
pub(super) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_SHOWN)]
}

impl Scalar {
    pub(super) fn number(&self) -> Option<f64> {
        match *self {
            Self::Int(value) => Some(value as f64),
            Self::Float(value) => Some(value),
            _ => None,
        }
    }

    /// Returns a whole number, which may be written with a fraction of 0.
    pub(super) fn whole(&self) -> Option<i64> {
        match *self {
            Self::Int(value) => Some(value),
            Self::Float(value) if value.fract() == 0.0 && value.abs() < 2f64.powi(53) => {
                Some(value as i64)
            }
            _ => None,
        }
    }

    /// Returns the side of an image; 0 for what is none, since annotations are read without it.
    pub(super) fn side(&self) -> u32 {
        self.whole().and_then(|side| u32::try_from(side).ok()).unwrap_or_default()
    }
}

/// The methods of a visitor for which all scalars are alike: they go to its method `scalar`.
macro_rules! visit_scalars {
    () => {
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Ok(self.scalar(Scalar::Null))
        }

        fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
            Ok(self.scalar(Scalar::Bool(value)))
        }

        fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
            Ok(self.scalar(Scalar::Int(value)))
        }

        fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
            Ok(self.scalar(match i64::try_from(value) {
                Ok(value) => Scalar::Int(value),
                Err(_) => Scalar::Float(value as f64),
            }))
        }

        fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
            Ok(self.scalar(Scalar::Float(value)))
        }

        fn visit_str<E: Error>(self, value: &str) -> Result<Self::Value, E> {
            Ok(self.scalar(Scalar::Text(value.into())))
        }
    };
}

pub(super) fn skip_seq<'de, A: SeqAccess<'de>>(list: &mut A) -> Result<(), A::Error> {
    while list.next_element::<IgnoredAny>()?.is_some() {}
    Ok(())
}

fn skip_map<'de, A: MapAccess<'de>>(map: &mut A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

struct ScalarVisitor;

impl ScalarVisitor {
    #[expect(clippy::unused_self, reason = "the other visitors have something to do with it")]
    fn scalar(self, scalar: Scalar) -> Scalar {
        scalar
    }
}

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Scalar, A::Error> {
        skip_seq(&mut list)?;
        Ok(Scalar::Other("a list"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
        skip_map(&mut map)?;
        Ok(Scalar::Other("an object"))
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

/// The first problem that was found in an element.
#[derive(Default)]
pub(super) struct Problem(pub(super) Option<String>);

impl Problem {
    pub(super) fn note(&mut self, problem: impl FnOnce() -> String) {
        self.0.get_or_insert_with(problem);
    }

    /// Notes that a required key is missing.
    pub(super) fn missing(&mut self, key: &str) {
        self.note(|| {
            format!(
                "`{key}` is missing: expected annotations of objects, such as those in COCO's \
                 instances_train2017.json"
            )
        });
    }

    /// Returns a coordinate, and notes one that is none.
    fn coordinate(&mut self, key: &str, value: &Scalar) -> f64 {
        match value.number() {
            Some(number) if number.abs() <= FARTHEST => number,
            Some(number) => {
                self.note(|| format!("`{key}` has coordinate {number}, the limit is {FARTHEST}"));
                0.0
            }
            None => {
                self.note(|| format!("`{key}` has {value}, expected a number"));
                0.0
            }
        }
    }
}

/// A list of numbers that are no farther than a coordinate may be.
pub(super) struct Numbers<'a> {
    pub(super) key: &'static str,
    pub(super) values: &'a mut Vec<f64>,
    pub(super) most: usize,
    pub(super) problem: &'a mut Problem,
}

impl Numbers<'_> {
    #[allow(clippy::needless_pass_by_value, reason = "the macro of visitors passes a value")]
    fn scalar(self, found: Scalar) {
        let Self { key, most, problem, .. } = self;
        // An object without keypoints may say so.
        if !matches!(found, Scalar::Null) {
            problem
                .note(|| format!("`{key}` is {found}, expected a list of at most {most} numbers"));
        }
    }
}

impl<'de> DeserializeSeed<'de> for Numbers<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {} numbers", self.most)
    }

    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { key, values, most, problem } = self;
        values.clear();
        while let Some(value) = list.next_element::<Scalar>()? {
            if values.len() == most {
                problem.note(|| format!("`{key}` has more than {most} numbers"));
                return skip_seq(&mut list);
            }
            values.push(problem.coordinate(key, &value));
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        skip_map(&mut map)?;
        self.scalar(Scalar::Other("an object"));
        Ok(())
    }
}

/// The range of the bytes of a value of `segmentation`; empty if there is no mask.
pub(super) struct SegmentationRange<'a> {
    pub(super) position: &'a Cell<u64>,
    pub(super) problem: &'a mut Problem,
}

impl<'de> DeserializeSeed<'de> for SegmentationRange<'_> {
    type Value = Range<u64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Range<u64>, D::Error> {
        let start = self.position.get();
        let is_there = from.deserialize_any(Segmentation { problem: self.problem })?;
        Ok(if is_there { start..self.position.get() } else { 0..0 })
    }
}

/// A value of `segmentation`, which is checked and not stored. Its value is whether there is a mask.
struct Segmentation<'a> {
    problem: &'a mut Problem,
}

impl Segmentation<'_> {
    #[allow(clippy::needless_pass_by_value, reason = "the macro of visitors passes a value")]
    fn scalar(self, found: Scalar) -> bool {
        // `null` is an object without a mask.
        if !matches!(found, Scalar::Null) {
            self.problem.note(|| {
                format!(
                    "`segmentation` is {found}, expected a list of polygons or an object with `size` and `counts`"
                )
            });
        }
        false
    }
}

impl<'de> Visitor<'de> for Segmentation<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of polygons or an object with `size` and `counts`")
    }

    visit_scalars!();

    /// A list without polygons is an object without a mask, too.
    fn visit_seq<A: SeqAccess<'de>>(self, mut polygons: A) -> Result<bool, A::Error> {
        let (mut is_there, mut points) = (false, 0);
        while let Some(coordinates) =
            polygons.next_element_seed(Polygon { problem: &mut *self.problem })?
        {
            is_there = true;
            points += coordinates.div_ceil(2);
            if points > MOST_POINTS {
                self.problem.note(|| {
                    format!("the polygons have more than {MOST_POINTS} points, the limit")
                });
                skip_seq(&mut polygons)?;
                break;
            }
        }
        Ok(is_there)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        let (mut size, mut has_counts) = (vec![], false);
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "size" => {
                    let (values, problem) = (&mut size, &mut *self.problem);
                    map.next_value_seed(Numbers { key: "size", values, most: 2, problem })?;
                }
                key => {
                    has_counts |= key == "counts";
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let is_side = |side: &f64| side.fract() == 0.0 && *side >= 0.0;
        if size.len() != 2 || !size.iter().all(is_side) {
            self.problem.note(|| "`segmentation` has no `size`: [height, width]".to_owned());
        }
        if !has_counts {
            self.problem.note(|| "`segmentation` has no `counts`".to_owned());
        }
        Ok(true)
    }
}

/// A polygon, of which only the number of coordinates is returned.
struct Polygon<'a> {
    problem: &'a mut Problem,
}

impl Polygon<'_> {
    #[allow(clippy::needless_pass_by_value, reason = "the macro of visitors passes a value")]
    fn scalar(self, found: Scalar) -> usize {
        self.problem.note(|| format!("`segmentation` has {found}, expected a list of coordinates"));
        0
    }
}

impl<'de> DeserializeSeed<'de> for Polygon<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Polygon<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of coordinates")
    }

    visit_scalars!();

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while let Some(value) = list.next_element::<Scalar>()? {
            self.problem.coordinate("segmentation", &value);
            count += 1;
            if count > 2 * MOST_POINTS {
                self.problem
                    .note(|| format!("a polygon of more than {MOST_POINTS} points, the limit"));
                skip_seq(&mut list)?;
                break;
            }
        }
        Ok(count)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        skip_map(&mut map)?;
        Ok(self.scalar(Scalar::Other("an object")))
    }
}
