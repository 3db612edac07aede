//! The features by which TensorFlow's detection models read the objects of an example, beside those that
//! hold the fields themselves.
//!
//! | feature | value |
//! |---|---|
//! | `image/format`, `image/height`, `image/width` | `jpeg` or `png`; the size in the image's header |
//! | `image/source_id` | the number of the image, as a text |
//! | `image/object/bbox/xmin`, `ymin`, `xmax`, `ymax` | the edges, divided by the width and the height |
//! | `image/object/class/label`, `text` | the number of the class; its name, empty for a class without |
//! | `image/object/area`, `is_crowd`, `difficult`, .. | the columns of these names |
//! | `image/object/mask` | a gray PNG of 0 and 1 for each object, of zeros for one without a mask |
//!
//! A feature that is a field of the dataset stays as it is.

use crate::decode::ObjectMask;
use crate::decode::object_rows::{floats, integers};
use crate::source::example::{BytesList, ExampleFeature, FloatList, Int64List, Kind};
use crate::source::marks::NamedFeatures;
use crate::source::{
    ClassNames, FieldSpec, NdType, ObjectField, ObjectFields, OwnedValue, detection,
};
use crate::write::shards::json_text;
use crate::write::value::WriteSampleError;
use fuseloop_ops::author::BoundingBox;
use fuseloop_ops::{BoxFormat, Size};

/// Which fields the features are made of.
#[derive(Debug)]
pub(in crate::write) struct Detection {
    /// The index of the image.
    pub(in crate::write) image: usize,
    boxes: (usize, BoxFormat),
    classes: Option<usize>,
    /// The fields of other numbers, with their features.
    columns: Vec<(usize, &'static str, NdType)>,
    masks: Option<usize>,
    image_id: Option<usize>,
    names: ClassNames,
}

impl Detection {
    /// Returns the features of a dataset; `None` if it has not one image with upright boxes.
    pub(in crate::write) fn new(
        fields: &[FieldSpec],
        objects: &ObjectFields,
        names: Option<&ClassNames>,
    ) -> Option<Self> {
        let at = |wanted: &dyn Fn(&FieldSpec, Option<ObjectField>) -> bool| {
            fields.iter().position(|field| wanted(field, objects.get(&field.name)))
        };
        let (boxes, format) = objects.boxes().filter(|(_, format)| !format.is_rotated())?;
        let column = |&(feature, name, is_float): &(&'static str, &str, bool)| {
            let dtype = if is_float { NdType::F32 } else { NdType::I64 };
            let column = Some(ObjectField::Column(dtype));
            Some((at(&|field, is| field.name == name && is == column)?, feature, dtype))
        };
        Some(Self {
            image: detection_image(fields)?,
            boxes: (at(&|field, _| field.name == boxes)?, format),
            classes: at(&|_, is| is == Some(ObjectField::Classes)),
            columns: detection::COLUMNS.iter().filter_map(column).collect(),
            masks: at(&|_, is| is == Some(ObjectField::Segmentation)),
            image_id: at(&|_, is| is == Some(ObjectField::ImageId)),
            names: names.cloned().unwrap_or_default(),
        })
    }

    /// Returns the features of a sample whose image has this size.
    ///
    /// # Errors
    ///
    /// If the fields have different numbers of objects, or a mask is damaged or of another size.
    pub(in crate::write) fn features(
        &self,
        record: &[OwnedValue],
        fields: &[FieldSpec],
        size: Size,
    ) -> Result<NamedFeatures, WriteSampleError> {
        let (boxes, format) = self.boxes;
        let wrong = |index: usize, reason: String| {
            let name = &fields[index].name;
            WriteSampleError::Source(format!("field {name:?}: {reason}").into())
        };
        let rows = |index: usize, dtype: NdType, row: &[u64]| match &record[index] {
            OwnedValue::Bytes(bytes) => super::bytes::rows_of(bytes, dtype, row, &fields[index]),
            _ => Ok(&[][..]),
        };
        let boxes = rows(boxes, NdType::F32, &[format.columns() as u64])?;
        let count = boxes.len() / (4 * format.columns());
        let counted = |index: usize, found: usize| match found == count {
            true => Ok(()),
            false => Err(wrong(index, format!("{found} for {count} objects: each needs one"))),
        };
        let mut features = NamedFeatures::new();
        let mut add = |name: &str, kind| {
            features.insert(name.to_owned(), ExampleFeature { kind: Some(kind) });
        };
        add(detection::HEIGHT, ints(vec![i64::from(size.height)]));
        add(detection::WIDTH, ints(vec![i64::from(size.width)]));
        if let OwnedValue::Image(image) = &record[self.image] {
            let format = match super::extension(&image.bytes) {
                "jpg" | "fplanes" => "jpeg",
                other => other,
            };
            add("image/format", texts(vec![format.as_bytes().to_vec()]));
        }
        if let Some(OwnedValue::Int(id)) = self.image_id.map(|index| &record[index]) {
            add("image/source_id", texts(vec![id.to_string().into_bytes()]));
        }
        for (name, value) in detection::EDGES.into_iter().zip(edges(boxes, format, size)) {
            add(name, Kind::Floats(FloatList { value }));
        }
        if let Some(index) = self.classes {
            let classes: Vec<i64> = integers(rows(index, NdType::I64, &[])?).collect();
            counted(index, classes.len())?;
            if self.names.iter().len() > 0 {
                let name = |class: &i64| self.names.get(*class).unwrap_or_default();
                let name = |class| name(class).as_bytes().to_vec();
                add(detection::TEXT, texts(classes.iter().map(name).collect()));
            }
            add(detection::LABEL, ints(classes));
        }
        for &(index, name, dtype) in &self.columns {
            let rows = rows(index, dtype, &[])?;
            counted(index, rows.len() / dtype.item_size() as usize)?;
            add(
                name,
                if dtype == NdType::F32 {
                    Kind::Floats(FloatList { value: floats(rows).collect() })
                } else {
                    ints(integers(rows).collect())
                },
            );
        }
        if let Some((index, OwnedValue::Json(text))) =
            self.masks.map(|index| (index, &record[index]))
        {
            let masks = ObjectMask::parse_list(&json_text(text.clone()))
                .map_err(|error| wrong(index, error.to_string()))?;
            counted(index, masks.len())?;
            let files = masks.iter().enumerate().map(|(object, mask)| {
                let file = mask_file(mask.as_ref(), size);
                file.map_err(|reason| wrong(index, format!("object {object}: {reason}")))
            });
            add(detection::MASK, texts(files.collect::<Result<_, _>>()?));
        }
        Ok(features)
    }
}

/// Returns the only image of a sample.
pub(in crate::write) fn detection_image(fields: &[FieldSpec]) -> Option<usize> {
    let mut images = (0..fields.len()).filter(|&at| fields[at].kind.is_image());
    images.next().filter(|_| images.next().is_none())
}

/// Returns the left, top, right and bottom edges of boxes as shares of the image.
fn edges(rows: &[u8], format: BoxFormat, size: Size) -> [Vec<f32>; 4] {
    let mut edges = [const { vec![] }; 4];
    let sides = [size.width, size.height, size.width, size.height];
    for row in rows.chunks_exact(4 * format.columns()) {
        let values: Vec<f32> = floats(row).collect();
        let BoundingBox::Edges(pixels) = BoundingBox::read(format, &values) else { continue };
        for ((edge, pixels), side) in edges.iter_mut().zip(pixels).zip(sides) {
            edge.push(detection::share(pixels, side));
        }
    }
    edges
}

/// Returns the PNG of a mask.
fn mask_file(mask: Option<&ObjectMask>, size: Size) -> Result<Vec<u8>, String> {
    // The size is that of an image that the decoder accepts.
    let mut pixels = vec![0; size.pixels() as usize];
    if let Some(mask) = mask {
        mask.fill(size, &mut pixels).map_err(|error| error.to_string())?;
    }
    super::bytes::gray_png(size, &pixels).map_err(|error| error.to_string())
}

fn ints(value: Vec<i64>) -> Kind {
    Kind::Ints(Int64List { value })
}

fn texts(value: Vec<Vec<u8>>) -> Kind {
    Kind::Bytes(BytesList { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FieldKind;
    use crate::source::OwnedImage;
    use crate::write::shards::bytes::gray_png;

    fn of(name: &str, field: ObjectField) -> (FieldSpec, ObjectField) {
        let kind = match field {
            ObjectField::ImageId => FieldKind::Int,
            ObjectField::Segmentation => FieldKind::Json,
            _ => FieldKind::Bytes,
        };
        (FieldSpec { name: name.to_owned(), kind }, field)
    }

    fn dataset(format: BoxFormat) -> (Vec<FieldSpec>, ObjectFields) {
        let objects = [
            of("image_id", ObjectField::ImageId),
            of("bbox", ObjectField::Boxes(format)),
            of("category_id", ObjectField::Classes),
            of("area", ObjectField::Column(NdType::F32)),
            of("iscrowd", ObjectField::Column(NdType::I64)),
            of("segmentation", ObjectField::Segmentation),
        ];
        let image = FieldSpec { name: "image/encoded".to_owned(), kind: FieldKind::RgbImage };
        let fields = [image].into_iter().chain(objects.iter().map(|(spec, _)| spec.clone()));
        (fields.collect(), objects.iter().map(|(spec, field)| (&*spec.name, *field)).collect())
    }

    const SIZE: Size = Size { height: 2, width: 3 };

    fn record(boxes: &[f32], masks: &str) -> Vec<OwnedValue> {
        let count = boxes.len() as i64 / 4;
        let longs = |value: fn(i64) -> i64| {
            OwnedValue::Bytes((0..count).flat_map(|n| value(n).to_le_bytes()).collect())
        };
        let floats = |values: &[f32]| {
            OwnedValue::Bytes(values.iter().flat_map(|value| value.to_le_bytes()).collect())
        };
        vec![
            OwnedValue::Image(OwnedImage::png(gray_png(SIZE, &[0; 6]).unwrap())),
            OwnedValue::Int(-7),
            floats(boxes),
            longs(|n| n * 3),
            floats(&vec![0.5; boxes.len() / 4]),
            longs(|n| n),
            OwnedValue::Json(format!("{masks}\0").into_bytes()),
        ]
    }

    fn features(record: &[OwnedValue]) -> Result<NamedFeatures, String> {
        let (fields, objects) = dataset(BoxFormat::Xywh);
        let names = [(0, "cat".to_owned()), (9, "dog".to_owned())].into_iter().collect();
        let detection = Detection::new(&fields, &objects, Some(&names)).unwrap();
        detection.features(record, &fields, SIZE).map_err(|error| error.to_string())
    }

    #[test]
    fn the_features_are_those_of_tensorflows_detection_models() {
        let masks = r#"[[[0, 0, 2, 0, 2, 1, 0, 1]], null]"#;
        let boxes = [0.3, 0.5, 1.2, 1.0, 0.0, 0.0, 3.0, 2.0];
        let features = features(&record(&boxes, masks)).unwrap();
        let names: Vec<&str> = features.keys().map(|name| &**name).collect();
        let expected = [
            "image/format",
            "image/height",
            "image/object/area",
            "image/object/bbox/xmax",
            "image/object/bbox/xmin",
            "image/object/bbox/ymax",
            "image/object/bbox/ymin",
            "image/object/class/label",
            "image/object/class/text",
            "image/object/is_crowd",
            "image/object/mask",
            "image/source_id",
            "image/width",
        ];
        assert_eq!(names, expected);
        let of = |name: &str| features[name].kind.clone().unwrap();
        let shares = |value: &[f32]| Kind::Floats(FloatList { value: value.to_vec() });
        assert_eq!(of("image/object/bbox/xmin"), shares(&[0.1, 0.0]));
        assert_eq!(of("image/object/bbox/ymin"), shares(&[0.25, 0.0]));
        assert_eq!(of("image/object/bbox/xmax"), shares(&[0.5, 1.0]));
        assert_eq!(of("image/object/bbox/ymax"), shares(&[0.75, 1.0]));
        assert_eq!(of("image/object/class/label"), ints(vec![0, 3]));
        assert_eq!(of("image/object/class/text"), texts(vec![b"cat".to_vec(), vec![]]));
        assert_eq!(of("image/object/is_crowd"), ints(vec![0, 1]));
        assert_eq!((of("image/height"), of("image/width")), (ints(vec![2]), ints(vec![3])));
        assert_eq!(of("image/format"), texts(vec![b"png".to_vec()]));
        assert_eq!(of("image/source_id"), texts(vec![b"-7".to_vec()]));
        let masks = [[1, 1, 0, 0, 0, 0], [0; 6]].map(|mask| gray_png(SIZE, &mask).unwrap());
        assert_eq!(of("image/object/mask"), texts(masks.to_vec()));
    }

    #[test]
    fn what_does_not_belong_to_the_boxes_is_refused() {
        let boxes = [0.0, 0.0, 1.0, 1.0];
        let refused = |index: usize, value: OwnedValue| {
            let mut record = record(&boxes, "[null]");
            record[index] = value;
            features(&record).unwrap_err()
        };
        let bytes = |count: usize| OwnedValue::Bytes(vec![0; count]);
        assert_eq!(
            refused(2, bytes(15)),
            "field \"bbox\": 15 bytes are not whole objects of 16 bytes"
        );
        assert_eq!(refused(3, bytes(16)), "field \"category_id\": 2 for 1 objects: each needs one");
        assert_eq!(refused(4, bytes(0)), "field \"area\": 0 for 1 objects: each needs one");
        let json = |text: &str| OwnedValue::Json(format!("{text}\0").into_bytes());
        assert_eq!(
            refused(6, json("[]")),
            "field \"segmentation\": 0 for 1 objects: each needs one"
        );
        assert!(refused(6, json("{")).contains("expected a list of polygons"));
        let other = r#"[{"size": [3, 2], "counts": [6]}]"#;
        assert!(refused(6, json(other)).starts_with("field \"segmentation\": object 0: "));
    }

    #[test]
    fn datasets_without_one_image_or_upright_boxes_have_none() {
        let (mut fields, objects) = dataset(BoxFormat::Cxcywhr);
        assert!(Detection::new(&fields, &objects, None).is_none());
        let (_, objects) = dataset(BoxFormat::Xyxy);
        assert!(Detection::new(&fields, &objects, None).is_some());
        assert!(Detection::new(&fields[1..], &objects, None).is_none());
        fields.push(FieldSpec { name: "seg".to_owned(), kind: FieldKind::RgbImage });
        assert!(Detection::new(&fields, &objects, None).is_none());
    }

    /// Pixels become shares and pixels again with an error of at most one step of an f32.
    #[test]
    fn shares_of_an_image_keep_its_pixels() {
        arbtest::arbtest(|u| {
            let side = u.int_in_range(1..=65_535)?;
            let pixels = side as f32 * u.int_in_range(0..=1_000_000)? as f32 / 1e6;
            let share = detection::share(f64::from(pixels), side);
            let back = (f64::from(share) * f64::from(side)) as f32;
            let steps = i64::from(back.to_bits()) - i64::from(pixels.to_bits());
            assert!(steps.abs() <= 1, "{pixels} of {side} became {back}");
            Ok(())
        })
        .budget_ms(200);
    }
}
