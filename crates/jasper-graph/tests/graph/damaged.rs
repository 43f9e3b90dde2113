//! Slightly damaged copies of files. `jasper-interop` tests its readers by them as well.

use jasper_core::synthetic::rng;
use rand::RngExt;

use crate::allocation::largest_of;

/// What a file may cost at once: a multiple of its size, because readers convert it, and tables of a fixed size.
const SIZE_FACTOR: usize = 8;
const FIXED_BYTES: usize = 1 << 20;

/// Runs `target` over `seed` and over `rounds` damaged copies: a few words at `offsets` are overwritten, and every
/// eighth copy is also cut or extended. Some copies must be readable, and some not; none may cost more than its size
/// accounts for.
pub fn damage(target: fn(&[u8]) -> bool, seed: &[u8], offsets: &[usize], rounds: usize) {
    assert!(target(seed), "the seed is good");
    let mut read = 0;
    let mut random = rng(seed.len() as u64);
    for _ in 0..rounds {
        let mut bytes = seed.to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = offsets[random.random_range(0..offsets.len())];
            let word: u32 = match random.random_range(0..4) {
                0 => random.random(),
                1 => random.random_range(0..70),
                2 => u32::MAX - random.random_range(0..3),
                _ => 1 << random.random_range(0..32),
            };
            let width = random.random_range(1..5).min(seed.len() - at);
            bytes[at..at + width].copy_from_slice(&word.to_le_bytes()[..width]);
        }
        if random.random_range(0..8) == 0 {
            bytes.resize(random.random_range(0..seed.len() + 100), 0);
        }
        let (is_read, largest) = largest_of(|| target(&bytes));
        let allowed = SIZE_FACTOR * bytes.len() + FIXED_BYTES;
        assert!(largest <= allowed, "{largest} bytes were allocated at once for a file of {}", bytes.len());
        read += usize::from(is_read);
    }
    assert!((rounds / 50..rounds * 3 / 4).contains(&read), "{read} of {rounds} were read");
}
