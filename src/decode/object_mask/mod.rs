//! Masks of objects as COCO stores them: polygons, and runs of pixels (RLE).
//!
//! ```text
//! [[x0, y0, x1, y1, ..], ..]            polygons, whose union is the object
//! {"size": [h, w], "counts": [..]}      runs down the columns, the first of zeros
//! {"size": [h, w], "counts": "..."}     the same, compressed
//! ```
//!
//! Which pixels are inside a polygon is pycocotools' rule, to the bit: see `polygon.rs`. What pycocotools
//! accepts and this module refuses:
//!
//! | input | pycocotools 2.0.11 |
//! |---|---|
//! | a coordinate that is NaN or infinite | ends the process, or takes all memory |
//! | a coordinate beyond 2^20 | memory and time in proportion; beyond 2^28 an integer overflows |
//! | an odd number of coordinates | the last is ignored |
//! | one or two points | a mask without pixels; a first polygon of 2 points is read as a box |
//! | runs of fewer pixels than the mask has | the rest is zeros |
//! | runs of more pixels | an error when they are decoded |
//! | a compressed count that is cut short, or negative | reads past the end; wraps around |
//! | no polygons | an `IndexError` |

mod polygon;
mod raster;
mod rle;
#[cfg(test)]
mod tests;

use crate::error::{Error, fail};
use fuseloop_ops::Size;
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::memory;
use polygon::{Changes, Union};
use raster::Raster;
use rle::Runs;
use serde_core::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess};
use serde_core::de::{Unexpected, Visitor};
use std::borrow::Cow;
use std::fmt;

/// The most points of one object's polygons.
const MOST_POINTS: usize = 1_000_000;

/// The largest absolute value of a coordinate.
const FARTHEST: f64 = (1 << 20) as f64;

/// The mask of an object, as one value of COCO's `segmentation`.
///
/// The field `segmentation` of a COCO dataset is a list of such values, one for each object of an image:
///
/// ```
/// use fuseloop::ObjectMask;
///
/// let json = br#"[[[1, 1, 1, 4, 5, 4, 5, 1]], {"size": [6, 8], "counts": [44, 3, 1]}, null]"#;
/// let masks = ObjectMask::parse_list(json)?;
/// let square = masks[0].as_ref().unwrap();
/// let mut pixels = [0; 6 * 8];
/// square.fill((6, 8).into(), &mut pixels)?;
/// assert_eq!(pixels[8..16], [0, 1, 1, 1, 1, 0, 0, 0]);
/// assert_eq!(square.area((6, 8).into())?, 12);
/// assert!(masks[2].is_none());
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectMask(Shape);

#[derive(Clone, Debug, PartialEq)]
enum Shape {
    /// Coordinates `x0, y0, x1, y1, ..` of each polygon, all checked.
    Polygons(Vec<Vec<f64>>),
    Runs(Runs),
}

impl ObjectMask {
    /// Reads one value of `segmentation`.
    ///
    /// # Errors
    ///
    /// If it is neither a list of polygons nor a list of runs, or one that the table above refuses.
    pub fn parse(json: &[u8]) -> Result<Self, Error> {
        let stored = DefaultFloats::during(|| serde_json::from_slice::<Stored>(json));
        stored.map_err(|error| json_error(&error))?.check()
    }

    /// Reads a list of such values; `null` is an object without a mask.
    ///
    /// # Errors
    ///
    /// The errors are those of [`parse`](Self::parse), with the index of the object.
    pub fn parse_list(json: &[u8]) -> Result<Vec<Option<Self>>, Error> {
        let stored = DefaultFloats::during(|| serde_json::from_slice::<Vec<Option<Stored>>>(json));
        let stored = stored.map_err(|error| json_error(&error))?;
        let check = |(index, stored): (usize, Option<Stored>)| {
            let at_index = |error: Error| error.context(format_args!("object {index}"));
            stored.map(|stored| stored.check().map_err(at_index)).transpose()
        };
        stored.into_iter().enumerate().map(check).collect()
    }

    /// Makes the union of polygons, each of coordinates `x0, y0, x1, y1, ..`.
    ///
    /// # Errors
    ///
    /// If one has fewer than three points, or coordinates that are refused.
    pub fn from_polygons(polygons: Vec<Vec<f64>>) -> Result<Self, Error> {
        if polygons.is_empty() {
            return Err(fail!(
                Damaged,
                "the list of polygons is empty: write null for an object without a mask"
            ));
        }
        let points: usize = polygons.iter().map(|polygon| polygon.len() / 2).sum();
        if points > MOST_POINTS {
            return Err(fail!(
                Damaged,
                "the polygons have {points} points, the limit is {MOST_POINTS}"
            ));
        }
        for (polygon, coordinates) in polygons.iter().enumerate() {
            let found = coordinates.len();
            if found % 2 != 0 {
                return Err(fail!(
                    Damaged,
                    "polygon {polygon} has {found} coordinates, expected x and y for each point"
                ));
            }
            if found < 6 {
                let points = found / 2;
                return Err(fail!(
                    Damaged,
                    "polygon {polygon} has {points} points, expected at least 3"
                ));
            }
            // A NaN is in no range.
            let is_far = |coordinate: &f64| !(-FARTHEST..=FARTHEST).contains(coordinate);
            if let Some(index) = coordinates.iter().position(is_far) {
                let found = coordinates[index];
                return Err(fail!(
                    Damaged,
                    "coordinate {index} of polygon {polygon} is {found}, expected -1048576 to 1048576"
                ));
            }
        }
        Ok(Self(Shape::Polygons(polygons)))
    }

    /// Makes the runs of a mask, `[H, W]` in rows; every value but 0 is inside.
    ///
    /// # Errors
    ///
    /// If `pixels` has not one byte for each pixel, or the mask has more than `u32::MAX` pixels.
    pub fn encode(pixels: &[u8], size: Size) -> Result<Self, Error> {
        check_memory(pixels, size)?;
        Ok(Self(Shape::Runs(Runs::encode(pixels, size)?)))
    }

    /// Writes the mask for an image of `size`: 1 inside, 0 outside, `[H, W]` in rows.
    ///
    /// # Errors
    ///
    /// If `out` has not one byte for each pixel, or the mask is a list of runs of another size.
    pub fn fill(&self, size: Size, out: &mut [u8]) -> Result<(), Error> {
        check_memory(out, size)?;
        if let Shape::Runs(runs) = &self.0 {
            runs.check_size(size)?;
        }
        let mut raster = Raster::new(out, size);
        match &self.0 {
            Shape::Polygons(polygons) => {
                let changes =
                    |coordinates| DefaultFloats::during(|| Changes::of(coordinates, size));
                if let [coordinates] = &polygons[..] {
                    changes(coordinates).toggle(&mut raster);
                } else {
                    let mut union = Union::new(size);
                    polygons.iter().for_each(|coordinates| union.add(&changes(coordinates)));
                    union.toggle(&mut raster);
                }
                raster.add();
            }
            Shape::Runs(runs) => {
                runs.toggle(&mut raster);
                raster.add();
            }
        }
        Ok(())
    }

    /// Returns the number of pixels inside, in an image of `size`.
    ///
    /// # Errors
    ///
    /// The errors are those of [`fill`](Self::fill).
    pub fn area(&self, size: Size) -> Result<u64, Error> {
        Ok(self.runs(size)?.area())
    }

    /// Returns the smallest box around the pixels inside, in an image of `size`: `[x, y, width, height]`, all
    /// zero if there are none.
    ///
    /// # Errors
    ///
    /// The errors are those of [`fill`](Self::fill).
    pub fn bounding_box(&self, size: Size) -> Result<[u32; 4], Error> {
        Ok(self.runs(size)?.bounding_box())
    }

    /// Returns the mask for an image of `size` as compressed runs, in COCO's JSON.
    ///
    /// ```
    /// use fuseloop::ObjectMask;
    ///
    /// let mask = ObjectMask::encode(&[0, 1, 1, 1, 0, 1, 1, 0, 1, 0, 1, 0], (3, 4).into())?;
    /// assert_eq!(mask.to_rle_json((3, 4).into())?, r#"{"size":[3,4],"counts":"23111"}"#);
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors are those of [`fill`](Self::fill).
    pub fn to_rle_json(&self, size: Size) -> Result<String, Error> {
        // The characters of counts include the backslash.
        let counts = serde_json::Value::from(self.runs(size)?.compressed());
        Ok(format!(r#"{{"size":[{},{}],"counts":{counts}}}"#, size.height, size.width))
    }

    fn runs(&self, size: Size) -> Result<Cow<'_, Runs>, Error> {
        match &self.0 {
            Shape::Runs(runs) => {
                runs.check_size(size)?;
                Ok(Cow::Borrowed(runs))
            }
            Shape::Polygons(_) => {
                let too_large = |_| rle::too_large(size);
                let count = u32::try_from(size.pixels()).map_err(too_large)? as usize;
                let mut pixels = vec![];
                memory::resize(&mut pixels, count, "a mask")?;
                self.fill(size, &mut pixels)?;
                Ok(Cow::Owned(Runs::encode(&pixels, size)?))
            }
        }
    }
}

fn check_memory(pixels: &[u8], size: Size) -> Result<(), Error> {
    let found = pixels.len();
    let fits = found as u64 == size.pixels();
    if fits {
        return Ok(());
    }
    let expected = size.pixels();
    Err(fail!(Parameter, "{found} bytes for a mask of {size}, expected {expected}"))
}

fn json_error(error: &serde_json::Error) -> Error {
    fail!(Damaged, "expected a list of polygons or an object with `size` and `counts`: {error}")
}

/// A value of `segmentation` as stored, of the right form but not checked.
enum Stored {
    Polygons(Vec<Vec<f64>>),
    Runs { size: [u32; 2], counts: Counts },
}

impl Stored {
    fn check(self) -> Result<ObjectMask, Error> {
        match self {
            Self::Polygons(polygons) => ObjectMask::from_polygons(polygons),
            Self::Runs { size: [height, width], counts } => {
                let counts = match counts {
                    Counts::Plain(counts) => counts,
                    Counts::Compressed(text) => rle::uncompressed(text.as_bytes())?,
                };
                let runs = Runs::new(Size::new(height, width), counts)?;
                Ok(ObjectMask(Shape::Runs(runs)))
            }
        }
    }
}

/// The lengths of runs as stored.
enum Counts {
    Plain(Vec<u32>),
    Compressed(String),
}

impl<'de> Deserialize<'de> for Stored {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(StoredVisitor)
    }
}

struct StoredVisitor;

impl<'de> Visitor<'de> for StoredVisitor {
    type Value = Stored;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of polygons or an object with `size` and `counts`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Stored, A::Error> {
        let mut polygons = vec![];
        while let Some(polygon) = list.next_element()? {
            polygons.push(polygon);
        }
        Ok(Stored::Polygons(polygons))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Stored, A::Error> {
        let (mut size, mut counts) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match &*key {
                "size" => size = Some(map.next_value()?),
                "counts" => counts = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let size = size.ok_or_else(|| A::Error::missing_field("size"))?;
        let counts = counts.ok_or_else(|| A::Error::missing_field("counts"))?;
        Ok(Stored::Runs { size, counts })
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CountsVisitor)
    }
}

struct CountsVisitor;

impl<'de> Visitor<'de> for CountsVisitor {
    type Value = Counts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of lengths or a compressed string")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Counts, A::Error> {
        let mut counts = vec![];
        while let Some(count) = list.next_element()? {
            counts.push(count);
        }
        Ok(Counts::Plain(counts))
    }

    fn visit_str<E: serde_core::de::Error>(self, text: &str) -> Result<Counts, E> {
        if !text.is_ascii() {
            return Err(E::invalid_value(Unexpected::Str(text), &self));
        }
        Ok(Counts::Compressed(text.to_owned()))
    }
}
