//! Random grid shuffle: the tiles of an image in a random order.

use crate::author::{GeometryOp, GeometryStep, ObjectMotion, Rng, RowProducer, Type};
use crate::kernel_size::KernelSize;
use crate::op::{Op, class, on_numbers};
use crate::rows::{RowFilter, Tiles};
use crate::{Size, TypeError};

/// Cuts a share `p` of the images into the tiles of a grid and puts these in a random order.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomGridShuffle.md"))]
///
/// The sides of tiles differ by at most one pixel, and which are longer is drawn. Each tile gets the pixels of one of the
/// same size; all orders of the tiles of a size are equally likely.
///
/// ```text
/// out[y, x, c] = in[top(j) + y - top(i), left(j) + x - left(i), c]   for a pixel of the tile i, where the tile j comes
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                        |
/// | output | as the input                                                                   |
/// | random | a coin `p`, the orders of the heights and of the widths, then those of the tiles |
/// | cost   | a copy of each row                                                             |
///
/// Albumentations' `RandomGridShuffle`. Masks follow; boxes and keypoints are refused, as an object can be cut apart.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomGridShuffle::new().grid(4)?.p(0.2)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    GEOMETRY,
    "puts the tiles of a grid in a random order, in a share p of the images",
    new = "Builds the op with Albumentations' defaults: 3 x 3 tiles, for half of the images.",
    golden = "tiles in an order of this crate's generator: it is tested that they are a permutation"
)]
pub struct RandomGridShuffle {
    /// Sets the number of tiles along a row and along a column.
    #[param("how many tiles", given = KernelSize, 1..=255, default = 3, draw = [0; 2].map(|_| 1 + rng.below(6)))]
    #[init([3; 2])]
    grid: [u32; 2],
    #[param(share)]
    p: f64,
}

#[class(Geometry)]
impl Op for RandomGridShuffle {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| image)
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.grid == [1; 2]
    }
}

/// Puts a list in a random order (Fisher and Yates).
fn shuffle<T>(rng: &mut Rng, list: &mut [T]) {
    for last in (1..list.len()).rev() {
        list.swap(last, rng.below(last as u32 + 1) as usize);
    }
}

/// Draws where the `count` intervals of a side begin and end, of lengths that differ by at most 1.
fn bounds(rng: &mut Rng, side: u32, count: u32) -> Vec<u32> {
    let mut lengths: Vec<u32> =
        (0..count).map(|i| side / count + u32::from(i < side % count)).collect();
    shuffle(rng, &mut lengths);
    let mut end = 0;
    let ends = lengths.into_iter().map(|length| {
        end += length;
        end
    });
    std::iter::once(0).chain(ends).collect()
}

impl RandomGridShuffle {
    /// Draws the tiles of an image.
    fn tiles(&self, rng: &mut Rng, size: Size) -> Tiles {
        let [across, down] = self.grid;
        let (rows, columns) = (bounds(rng, size.height, down), bounds(rng, size.width, across));
        let length = |bounds: &[u32], i: u32| bounds[i as usize + 1] - bounds[i as usize];
        let tile_size = |tile: u32| [length(&rows, tile / across), length(&columns, tile % across)];
        let mut from: Vec<u32> = (0..across * down).collect();
        let mut groups: Vec<Vec<u32>> = vec![];
        for tile in 0..across * down {
            match groups.iter_mut().find(|group| tile_size(group[0]) == tile_size(tile)) {
                Some(group) => group.push(tile),
                None => groups.push(vec![tile]),
            }
        }
        for group in groups {
            let mut shuffled = group.clone();
            shuffle(rng, &mut shuffled);
            for (tile, source) in group.into_iter().zip(shuffled) {
                from[tile as usize] = source;
            }
        }
        Tiles { rows, columns, from }
    }
}

impl GeometryOp for RandomGridShuffle {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let runs = rng.coin(self.p);
        let tiles = self.tiles(rng, size);
        if runs {
            out.push(GeometryStep::Rows(RowFilter::Tiles(tiles)));
        }
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(RowProducer::Called)
    }

    fn blends(&self) -> bool {
        false
    }

    fn object_motion(&self) -> ObjectMotion {
        ObjectMotion::Copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::shape::ImageView;

    #[test]
    fn every_pixel_occurs_once_and_tiles_keep_their_size() {
        let op = RandomGridShuffle::new().grid([4, 3]).unwrap();
        let size = Size::new(10, 19);
        let pixels: Vec<u8> = (0..190).collect();
        let input = ImageView::packed_channels(&pixels, size, 1).unwrap();
        let (mut seen, mut moved) = (std::collections::BTreeSet::new(), 0);
        for sample in 0..50 {
            let tiles = op.tiles(&mut SampleKey::new(0, 0, sample).op(0), size);
            assert_eq!((tiles.rows.len(), tiles.columns.len()), (4, 5));
            let mut out = RowFilter::Tiles(tiles.clone()).eval(&input);
            moved += u32::from(out != pixels);
            out.sort_unstable();
            assert_eq!(out, pixels, "{tiles:?}");
            seen.insert(tiles.from);
        }
        assert!(seen.len() > 40 && moved == 50, "{} {moved}", seen.len());
    }

    #[test]
    fn an_image_smaller_than_the_grid_has_empty_tiles() {
        let op = RandomGridShuffle::new().grid(5).unwrap();
        let tiles = op.tiles(&mut SampleKey::new(0, 0, 1).op(0), Size::new(2, 3));
        assert_eq!((tiles.rows.last(), tiles.columns.last()), (Some(&2), Some(&3)));
        let pixels = [1, 2, 3, 4, 5, 6];
        let input = ImageView::packed_channels(&pixels, Size::new(2, 3), 1).unwrap();
        let mut out = RowFilter::Tiles(tiles).eval(&input);
        out.sort_unstable();
        assert_eq!(out, pixels);
    }
}
