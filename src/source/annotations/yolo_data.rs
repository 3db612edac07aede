//! `data.yaml`, the description of a dataset in YOLO's format. The names of the classes and their number, the shape of
//! keypoints and their order in a mirror are read, and the rest is skipped.
//!
//! ```text
//! names: [cat, dog]          names:              names:
//! nc: 2                        0: cat            - cat
//! kpt_shape: [5, 3]            1: dog            - dog
//! flip_idx: [0, 2, 1, 4, 3]
//! ```

use saphyr_parser::{Event, Parser, ScanError, StrInput};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The most bytes of a description: names of a hundred thousand classes.
const MOST_BYTES: usize = 4 << 20;

/// The number of points of each object and of numbers of each point: x, y, and possibly the visibility.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeypointShape {
    pub points: usize,
    pub values: usize,
}

impl KeypointShape {
    /// Checks the numbers; the error has them.
    pub(super) fn new(points: usize, values: usize) -> Result<Self, String> {
        match [points, values] {
            [1..=1000, 2..=3] => Ok(Self { points, values }),
            _ => Err(format!(
                "{points} keypoints of {values} values, expected 1 to 1000 points of 2 or 3 values"
            )),
        }
    }
}

/// The description of a dataset.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DataFile {
    pub names: Option<Vec<String>>,
    /// The number of classes, which the names repeat.
    pub class_count: Option<usize>,
    pub keypoints: Option<KeypointShape>,
    /// The keypoints that change places in a mirror.
    pub flip_pairs: Vec<[usize; 2]>,
}

impl DataFile {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST_BYTES {
            return Err(format!("{} bytes, expected at most {MOST_BYTES}", text.len()));
        }
        // PyYAML, by which Ultralytics reads these files, takes a closing bracket in the column of its key; YAML 1.2
        // does not.
        let text = text.replace("\n]", "\n ]").replace("\n}", "\n }");
        let mut events = Events(Parser::new_from_str(&text));
        let mut found = Self::default();
        while let Some((event, line)) = events.next()? {
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::MappingStart(..) => {
                    found.read_keys(&mut events)?;
                    return found.checked();
                }
                Event::StreamEnd | Event::DocumentEnd => break,
                _ => return Err(format!("line {line}: expected `names: ...`, a map of keys")),
            }
        }
        Ok(found)
    }

    /// Checks the order of the keypoints against their number.
    fn checked(self) -> Result<Self, String> {
        let points = self.keypoints.map_or(usize::MAX, |shape| shape.points);
        match self.flip_pairs.iter().flatten().find(|&&point| point >= points) {
            Some(point) => {
                Err(format!("`flip_idx` has keypoint {point}, `kpt_shape` has {points} keypoints"))
            }
            None => Ok(self),
        }
    }

    fn read_keys(&mut self, events: &mut Events<'_>) -> Result<(), String> {
        while let Some((event, line)) = events.next()? {
            let place = |reason| format!("line {line}: {reason}");
            match event {
                Event::MappingEnd => break,
                Event::Scalar(key, ..) if key == "names" => {
                    self.names = Some(events.items("names")?.names().map_err(place)?);
                }
                Event::Scalar(key, ..) if key == "nc" => {
                    let expected = || place("`nc` is no number of classes".to_owned());
                    let value = events.next()?;
                    let Some((Event::Scalar(count, ..), _)) = value else { return Err(expected()) };
                    self.class_count = Some(count.parse().map_err(|_| expected())?);
                }
                Event::Scalar(key, ..) if key == "kpt_shape" => {
                    self.keypoints = Some(events.items("kpt_shape")?.shape().map_err(place)?);
                }
                Event::Scalar(key, ..) if key == "flip_idx" => {
                    self.flip_pairs = events.items("flip_idx")?.flip_pairs().map_err(place)?;
                }
                key => {
                    events.skip(&key)?;
                    if let Some((value, _)) = events.next()? {
                        events.skip(&value)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The values of a key: a list, or a map.
enum Items<'a> {
    List(Vec<Cow<'a, str>>),
    Map(Vec<(Cow<'a, str>, Cow<'a, str>)>),
}

impl Items<'_> {
    fn names(self) -> Result<Vec<String>, String> {
        let entries = match self {
            Items::List(names) => return Ok(names.into_iter().map(Cow::into_owned).collect()),
            Items::Map(entries) => entries,
        };
        let mut found = BTreeMap::new();
        for (key, name) in entries {
            let number: usize = key
                .parse()
                .map_err(|_| format!("{key:?} in `names`, expected the number of a class"))?;
            if found.insert(number, name.into_owned()).is_some() {
                return Err(format!("`names` has class {number} twice"));
            }
        }
        match (0..).zip(found.keys()).find(|(number, key)| number != *key) {
            Some((missing, _)) => {
                Err(format!("`names` has {} classes but no class {missing}", found.len()))
            }
            None => Ok(found.into_values().collect()),
        }
    }

    /// Reads the keypoint that stands at each place of a mirrored object.
    fn flip_pairs(&self) -> Result<Vec<[usize; 2]>, String> {
        let expected = || {
            "`flip_idx` is not a list of the numbers of all keypoints, in which two change places: [0, 2, 1]"
                .to_owned()
        };
        let Items::List(words) = self else { return Err(expected()) };
        let numbers: Option<Vec<usize>> = words.iter().map(|word| word.parse().ok()).collect();
        let numbers = numbers.ok_or_else(expected)?;
        let is_mirrored = |(one, other): (usize, &usize)| numbers.get(*other) == Some(&one);
        if !numbers.iter().enumerate().all(is_mirrored) {
            return Err(expected());
        }
        let pairs = numbers.iter().enumerate().filter(|(one, other)| one < other);
        Ok(pairs.map(|(one, &other)| [one, other]).collect())
    }

    fn shape(&self) -> Result<KeypointShape, String> {
        let expected = || "`kpt_shape` is not [points, 2] or [points, 3]".to_owned();
        let Items::List(words) = self else { return Err(expected()) };
        let numbers: Option<Vec<usize>> = words.iter().map(|word| word.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[points, values]) => KeypointShape::new(points, values),
            _ => Err(expected()),
        }
    }
}

/// The events of a YAML file.
struct Events<'a>(Parser<'a, StrInput<'a>>);

impl<'a> Events<'a> {
    /// Returns the next event and its line, from 1.
    fn next(&mut self) -> Result<Option<(Event<'a>, usize)>, String> {
        let refused =
            |error: ScanError| format!("line {}: {}", error.marker().line(), error.info());
        let event = self.0.next_event().transpose().map_err(refused)?;
        Ok(event.map(|(event, span)| (event, span.start.line())))
    }

    /// Skips the rest of a value that begins with this event.
    fn skip(&mut self, first: &Event<'_>) -> Result<(), String> {
        let depth = |event: &Event<'_>| match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => 1,
            Event::MappingEnd | Event::SequenceEnd => -1,
            _ => 0,
        };
        let mut open: i64 = depth(first);
        while open > 0 {
            let Some((event, _)) = self.next()? else { break };
            open += depth(&event);
        }
        Ok(())
    }

    /// Reads a list or a map of words.
    fn items(&mut self, key: &str) -> Result<Items<'a>, String> {
        let expected = |line| format!("line {line}: `{key}` is not a list or a map of words");
        let (first, line) = self.next()?.ok_or_else(|| expected(1))?;
        if !matches!(first, Event::MappingStart(..) | Event::SequenceStart(..)) {
            return Err(expected(line));
        }
        let mut words = vec![];
        while let Some((event, line)) = self.next()? {
            match event {
                Event::Scalar(word, ..) => words.push(word),
                Event::SequenceEnd => return Ok(Items::List(words)),
                Event::MappingEnd => {
                    let (mut words, mut entries) = (words.into_iter(), vec![]);
                    while let (Some(key), Some(value)) = (words.next(), words.next()) {
                        entries.push((key, value));
                    }
                    return Ok(Items::Map(entries));
                }
                _ => return Err(expected(line)),
            }
        }
        Err(expected(line))
    }
}
