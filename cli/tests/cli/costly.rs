//! `write` and `index` say of which images more is decoded than a window.

use super::command::stdout_of;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

#[test]
fn costly_images_are_told_with_what_makes_them_cheaper() {
    let dir = tempfile::tempdir().unwrap();
    for (class, progressive) in [("a", true), ("b", false)] {
        let folder = dir.path().join("photos").join(class);
        std::fs::create_dir_all(&folder).unwrap();
        let mut jpeg = vec![];
        let mut encoder = Encoder::new(&mut jpeg, 90);
        encoder.set_sampling_factor(SamplingFactor::R_4_2_0);
        encoder.set_progressive(progressive);
        let pixels: Vec<u8> = (0..40 * 50 * 3).map(|i| (i * 7 % 256) as u8).collect();
        encoder.encode(&pixels, 50, 40, ColorType::Rgb).unwrap();
        (0..2).for_each(|n| std::fs::write(folder.join(format!("{n}.jpg")), &jpeg).unwrap());
    }
    let png = std::fs::File::create(dir.path().join("photos/b/2.png")).unwrap();
    let mut encoder = png::Encoder::new(png, 3, 3);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[9; 27]).unwrap();

    let progressive = "2 of 5 checked images are progressive or rare JPEGs, whose scans are read \
                       down to the last row of every window: ";
    let index = stdout_of(dir.path(), &["index", "photos"]);
    assert!(index.contains(" ms for a window of 41 % of the image, "), "{index}");
    assert!(index.contains(" ms each, "), "{index}");
    assert!(index.contains(progressive) && index.contains("`fuseloop recut`"), "{index}");
    assert!(index.contains("1 of 5 checked images are PNGs, "), "{index}");
    let written = stdout_of(dir.path(), &["write", "photos", "plain.beton"]);
    assert!(written.contains(progressive) && !written.contains("are PNGs"), "{written}");
    let tiled = ["write", "photos", "tiled.beton", "--write-mode", "tiled"];
    let tiled = stdout_of(dir.path(), &tiled);
    assert!(!tiled.contains("checked images"), "{tiled}");
}
