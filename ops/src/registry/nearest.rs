//! Finds the known name that a user most likely meant.
//!
//! Names are compared case-insensitively by the number of characters to insert, remove, replace or
//! swap with their neighbour (optimal string alignment). The nearest name is suggested if at most a
//! third of its characters are wrong; otherwise a name that contains the given one is
//! (`ResizedCrop`).

/// Returns the name in `known` nearest to `name`, if one is near enough.
pub fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    /// Longer than any known name: a longer input is not a typing error.
    const LONGEST: usize = 64;
    let name: Vec<char> = lower(name).take(LONGEST + 1).collect();
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let wrong = (name.len() / 3).max(1);
    let key = |known: &str| {
        let known: Vec<char> = lower(known).collect();
        let distance = distance(&name, &known);
        let contains = name.len() >= 4 && known.windows(name.len()).any(|part| part == name);
        (distance <= wrong || contains).then_some((distance > wrong, distance))
    };
    let candidates = known.into_iter().filter_map(|known| Some((key(known)?, known)));
    candidates.min().map(|(_, known)| known)
}

fn lower(name: &str) -> impl Iterator<Item = char> {
    name.chars().flat_map(char::to_lowercase)
}

/// Returns the number of edits from `a` to `b`, with three rows of the usual table.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = above[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(above[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_by_hand() {
        let distance = |a: &str, b: &str| {
            distance(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>())
        };
        for (a, b, steps) in [
            ("", "", 0),
            ("", "abc", 3),
            ("scale", "scael", 1),
            ("kitten", "sitting", 3),
            ("abcdef", "badcfe", 3),
        ] {
            assert_eq!((distance(a, b), distance(b, a)), (steps, steps), "{a} {b}");
        }
    }

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        const KNOWN: [&str; 4] = ["Resize", "RandomResizedCrop", "RandomCrop", "p"];
        for (name, want) in [
            ("resize", Some("Resize")),
            ("RandomResizeCrop", Some("RandomResizedCrop")),
            ("ResizedCrop", Some("RandomResizedCrop")),
            ("RadnomCrop", Some("RandomCrop")),
            ("probability", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, KNOWN), want, "{name}");
        }
        assert_eq!(nearest(&"é".repeat(100_000), KNOWN), None);
    }
}
