//! A bit per row.

use std::sync::Arc;

use super::Parts;

/// Words of a part: 4 KB.
const PART: usize = 512;

#[derive(Clone, Debug)]
struct Part([u64; PART]);

impl Default for Part {
    fn default() -> Self {
        Self([0; PART])
    }
}

/// A bit per row, 0 before it is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits(Parts<Arc<Part>>);

impl Bits {
    #[inline]
    pub(crate) fn get(&self, row: u32) -> bool {
        let word = row as usize / 64;
        self.0.get(word / PART).is_some_and(|part| part.0[word % PART] >> (row % 64) & 1 == 1)
    }

    pub(crate) fn set(&mut self, row: u32, bit: bool) {
        let word = row as usize / 64;
        let word = &mut Arc::make_mut(self.0.get_mut(word / PART)).0[word % PART];
        *word = *word & !(1 << (row % 64)) | u64::from(bit) << (row % 64);
    }
}
