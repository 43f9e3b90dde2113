//! Parts in groups.

use std::sync::Arc;

/// Parts of a group. To change a part of a million copies two lists of about a thousand pointers each at most.
const GROUP: usize = 64;

/// Consecutive parts, which are the default where nothing was changed. A change copies the list of groups, a group and a
/// part, as far as clones share them.
#[derive(Debug)]
pub(crate) struct Parts<C>(Arc<[Group<C>]>);

type Group<C> = Arc<[Arc<C>]>;

impl<C: Clone + Default> Parts<C> {
    /// The part at an index, unless neither it nor a later one of its group was ever changed.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&C> {
        self.0.get(index / GROUP)?.get(index % GROUP).map(|part| &**part)
    }

    /// The part at an index, to be changed.
    pub(crate) fn part_mut(&mut self, index: usize) -> &mut C {
        let (group, place) = (index / GROUP, index % GROUP);
        if group >= self.0.len() {
            let new = std::iter::repeat_n(Arc::default(), group + 1 - self.0.len());
            self.0 = self.0.iter().cloned().chain(new).collect();
        }
        let parts = &mut Arc::make_mut(&mut self.0)[group];
        if place >= parts.len() {
            let new = std::iter::repeat_n(Arc::default(), place + 1 - parts.len());
            *parts = parts.iter().cloned().chain(new).collect();
        }
        Arc::make_mut(&mut Arc::make_mut(parts)[place])
    }

    /// The parts, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &C> {
        self.0.iter().flat_map(|group| group.iter().map(|part| &**part))
    }
}

impl<C> FromIterator<C> for Parts<C> {
    fn from_iter<I: IntoIterator<Item = C>>(parts: I) -> Self {
        let (mut groups, mut group) = (Vec::new(), Vec::with_capacity(GROUP));
        for part in parts {
            group.push(Arc::new(part));
            if group.len() == GROUP {
                groups.push(Arc::from_iter(group.drain(..)));
            }
        }
        if !group.is_empty() {
            groups.push(group.into());
        }
        Self(groups.into())
    }
}

impl<C> Clone for Parts<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> Default for Parts<C> {
    fn default() -> Self {
        Self(Arc::default())
    }
}
