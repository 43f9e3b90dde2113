//! The bits of a code row, as encoders write them and CPUs and GPUs read them.
//!
//! A code row is a fixed number of little-endian u32 words, a multiple of four, so that rows are aligned to 16 bytes:
//!
//! ```text
//! [ words of plane 0 | words of plane 1 | ... | zeros | factors, f16, in the row's last bytes ]
//! ```
//!
//! A **plane** holds `width` bits (1, 2, 4 or 8) of each dimension in a range, 32 / width dimensions per word. With *w*
//! a word of the plane, *b* a byte of it (below 4) and *j* a bit field of that byte (below 8 / width), dimension
//! `32 / width * w + 4 * j + b` of the plane is at bit `8 * b + width * j` of the word:
//!
//! ```text
//! width 4, word w:  byte  0         1         2         3
//!                   bits  7..4 3..0 7..4 3..0 7..4 3..0 7..4 3..0
//!              dimension   +4   +0   +5   +1   +6   +2   +7   +3    of 8 * w
//! ```
//!
//! Four adjacent dimensions are thus at the same bit of the four bytes of a word. One AND with a mask extracts them,
//! scaled by `2^(width * j)`, and one `dp4a` multiplies them with four int8 of a query in natural order. Sums are kept
//! per shift and shifted down once, at the end. That is exact, because each sum is a multiple of its power of two.
//!
//! The level of a dimension is the sum over planes of its bits in that plane times the plane's `2^shift`. A RaBitQ code
//! of 4 bits is one plane; of 7 bits, three planes of widths 4, 2 and 1 and shifts 3, 1 and 0 over the same dimensions.
//! A mixed code is up to four planes of shift 0, of widths 8, 4, 2 and 1, over different dimensions.

/// Size in bytes of a memory sector, the smallest read of a GPU.
pub const SECTOR_BYTES: usize = 32;
/// Rows are a multiple of this many words: 16 bytes, the widest load of a GPU thread.
const WORDS_ALIGN: usize = 4;

/// The same number of bits of each dimension in a range; see the [module docs](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plane {
    /// Bits of each dimension: 1, 2, 4 or 8.
    pub width: u32,
    /// The weight of these bits in a level is `2^shift`.
    pub shift: u32,
    /// First dimension of the range.
    pub first_dimension: usize,
    /// Number of dimensions, a multiple of 32 / width.
    pub dimensions: usize,
    /// First word of the row.
    pub first_word: usize,
}

impl Plane {
    /// Dimensions per word.
    pub const fn per_word(&self) -> usize {
        32 / self.width as usize
    }

    /// Number of words.
    pub const fn words(&self) -> usize {
        self.dimensions / self.per_word()
    }

    /// The lowest `width` bits of every byte.
    pub const fn mask(&self) -> u32 {
        0x0101_0101 * ((1 << self.width) - 1)
    }
}

/// The shape of a code row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    planes: Vec<Plane>,
    dimensions: usize,
    words: usize,
    factors: usize,
}

impl Layout {
    /// The layout of `bits` bits (1 to 8) of each of `dimensions`, rounded up to a multiple of 64, with `factors` f16
    /// factors.
    pub(crate) fn uniform(dimensions: usize, bits: u32, factors: usize) -> Self {
        let dimensions = dimensions.next_multiple_of(64);
        let mut planes = Vec::new();
        let (mut left, mut first_word) = (bits, 0);
        while left > 0 {
            let width = 1 << left.ilog2();
            left -= width;
            let plane = Plane { width, shift: left, first_dimension: 0, dimensions, first_word };
            first_word += plane.words();
            planes.push(plane);
        }
        let words = (first_word + factors.div_ceil(2)).next_multiple_of(WORDS_ALIGN);
        Self { planes, dimensions, words, factors }
    }

    /// The layout of planes of 8, 4, 2 and 1 bits with `plane_words` words each, over consecutive dimensions, in rows
    /// of `sectors` sectors with `factors` f16 factors.
    pub(crate) fn mixed(plane_words: [usize; 4], sectors: usize, factors: usize) -> Self {
        let mut planes = Vec::new();
        let (mut first_dimension, mut first_word) = (0, 0);
        for (width, words) in [8, 4, 2, 1].into_iter().zip(plane_words) {
            let dimensions = words * (32 / width as usize);
            planes.push(Plane { width, shift: 0, first_dimension, dimensions, first_word });
            first_dimension += dimensions;
            first_word += words;
        }
        planes.retain(|plane| plane.dimensions > 0);
        let words = sectors * SECTOR_BYTES / size_of::<u32>();
        assert!(first_word + factors.div_ceil(2) <= words, "planes and factors fit the sectors");
        Self { planes, dimensions: first_dimension, words, factors }
    }

    /// The planes, in the order of their words.
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// Number of coded dimensions, padding included. An encoded query has as many int8 per byte of a level.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Words per row, a multiple of four.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Bytes per row, a multiple of 16.
    pub fn bytes(&self) -> usize {
        self.words * size_of::<u32>()
    }

    /// Number of f16 factors at the end of a row: 2 (`add`, `rescale`) or 4 (`add`, `rescale`, `error`, `add_low`).
    pub fn factors(&self) -> usize {
        self.factors
    }

    /// The word at which the factors start.
    pub fn factor_word(&self) -> usize {
        self.words - self.factors / 2
    }

    /// Number of bits of `dimension` in all planes.
    pub fn bits_of(&self, dimension: usize) -> u32 {
        self.planes
            .iter()
            .filter(|plane| {
                (plane.first_dimension..plane.first_dimension + plane.dimensions).contains(&dimension)
            })
            .map(|plane| plane.width)
            .sum()
    }

    /// Number of bits of each dimension.
    pub(crate) fn bits(&self) -> Vec<u32> {
        (0..self.dimensions).map(|dimension| self.bits_of(dimension)).collect()
    }

    /// Words of the planes of 8, 4, 2 and 1 bits.
    pub(crate) fn words_by_width(&self) -> [usize; 4] {
        let of_width = |width| self.planes.iter().filter(move |plane| plane.width == width);
        [8, 4, 2, 1].map(|width| of_width(width).map(Plane::words).sum())
    }

    /// Writes `levels`, one per dimension, to the planes of `row`. Other words of the row are unchanged.
    ///
    /// # Panics
    /// Panics if `levels` has not [`Self::dimensions`] elements, or `row` not [`Self::words`].
    pub fn pack(&self, levels: &[u8], row: &mut [u32]) {
        assert_eq!((levels.len(), row.len()), (self.dimensions, self.words));
        for plane in &self.planes {
            let levels = &levels[plane.first_dimension..][..plane.dimensions];
            let words = &mut row[plane.first_word..][..plane.words()];
            for (word, levels) in words.iter_mut().zip(levels.chunks_exact(plane.per_word())) {
                *word = levels.chunks_exact(4).enumerate().fold(0, |word, (field, four)| {
                    let four = u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
                    // The mask removes the bits that the shift moved in from the byte above.
                    word | ((four >> plane.shift & plane.mask()) << (plane.width * field as u32))
                });
            }
        }
    }

    /// Reads the levels of a row, one per dimension. The reference for kernels.
    pub fn unpack(&self, row: &[u32]) -> Vec<u8> {
        assert_eq!(row.len(), self.words);
        let mut levels = vec![0; self.dimensions];
        for plane in &self.planes {
            for i in 0..plane.dimensions {
                let (word, inside) = (i / plane.per_word(), i % plane.per_word());
                let bit = 8 * (inside % 4) as u32 + plane.width * (inside / 4) as u32;
                let bits = row[plane.first_word + word] >> bit & ((1 << plane.width) - 1);
                levels[plane.first_dimension + i] |= (bits << plane.shift) as u8;
            }
        }
        levels
    }
}

#[cfg(test)]
mod tests {
    use jasper_core::synthetic::rng;
    use rand::RngExt;

    use super::*;

    #[test]
    fn a_word_of_four_bits_is_as_documented() {
        let layout = Layout::uniform(64, 4, 4);
        let mut levels = vec![0; 64];
        for (dimension, level) in levels.iter_mut().take(8).enumerate() {
            *level = dimension as u8 + 1;
        }
        let mut row = vec![0; layout.words()];
        layout.pack(&levels, &mut row);
        assert_eq!(row[0], 0x84_73_62_51);
    }

    #[test]
    fn levels_survive_packing() {
        let mut random = rng(1);
        let uniform = (1..=8).map(|bits| Layout::uniform(96, bits, 4));
        let mixed = [[0, 3, 3, 1], [2, 5, 6, 4], [0, 0, 7, 0], [0, 7, 0, 0], [6, 0, 0, 1], [0, 0, 0, 15]]
            .map(|words: [usize; 4]| Layout::mixed(words, words.iter().sum::<usize>().div_ceil(8), 2));
        for layout in uniform.chain(mixed) {
            let levels: Vec<u8> = (0..layout.dimensions())
                .map(|i| random.random_range(0..1_u16 << layout.bits_of(i)) as u8)
                .collect();
            let mut row = vec![0; layout.words()];
            layout.pack(&levels, &mut row);
            assert_eq!(layout.unpack(&row), levels, "{layout:?}");
            assert!(row[layout.factor_word()..].iter().all(|word| *word == 0), "factors are not touched");
        }
    }

    #[test]
    fn rows_have_the_bytes_that_the_book_says() {
        let bytes = |dimensions, bits| Layout::uniform(dimensions, bits, 4).bytes();
        assert_eq!([1, 2, 4, 8].map(|bits| bytes(128, bits)), [32, 48, 80, 144]);
        assert_eq!([1, 2, 3, 7].map(|bits| bytes(960, bits)), [128, 256, 368, 848]);
        assert_eq!(Layout::mixed([0, 3, 3, 1], 1, 2).bytes(), 32);
        assert_eq!(Layout::mixed([0, 3, 3, 1], 1, 2).dimensions(), 24 + 48 + 32);
    }
}
