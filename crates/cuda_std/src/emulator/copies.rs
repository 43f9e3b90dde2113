//! Asynchronous copies: the bytes arrive at the wait for their group, and not before.

use std::collections::VecDeque;

use super::fault::Site;

/// One copy of 16 bytes under way.
pub struct Copy {
    /// Where to, in shared memory.
    pub to: u32,
    /// What was at its source when it started.
    pub bytes: [u8; 16],
    /// The call that started it.
    pub site: Site,
}

/// The copies of one thread.
#[derive(Default)]
pub struct Copies {
    /// Since the last commit.
    open: Vec<Copy>,
    /// Committed, the oldest first.
    groups: VecDeque<Vec<Copy>>,
}

impl Copies {
    /// One more.
    pub fn start(&mut self, copy: Copy) {
        self.open.push(copy);
    }

    /// Makes a group of those since the last one.
    pub fn commit(&mut self) {
        self.groups.push_back(std::mem::take(&mut self.open));
    }

    /// Those that must have arrived when at most `left` groups are under way.
    pub fn arrive(&mut self, left: usize) -> Vec<Copy> {
        let arriving = self.groups.len().saturating_sub(left);
        self.groups.drain(..arriving).flatten().collect()
    }
}
