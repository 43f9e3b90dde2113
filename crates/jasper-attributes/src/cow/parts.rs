//! A list in groups.

use std::iter::repeat_n;
use std::sync::Arc;

/// Items of a group. To change one of thousands copies two short lists, mostly of pointers.
const GROUP: usize = 64;

/// A list of items, of which those that were never changed are the default. A change copies the list of groups and a
/// group, as far as clones share them. Items are small, or share memory themselves.
#[derive(Debug)]
pub(crate) struct Parts<T>(Arc<[Arc<[T]>]>);

impl<T: Clone + Default> Parts<T> {
    /// The item at an index, unless neither it nor a later one of its group was ever changed.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.0.get(index / GROUP)?.get(index % GROUP)
    }

    /// The item at an index, to be changed.
    pub(crate) fn get_mut(&mut self, index: usize) -> &mut T {
        let (group, place) = (index / GROUP, index % GROUP);
        extend(&mut self.0, group + 1);
        let items = &mut Arc::make_mut(&mut self.0)[group];
        extend(items, place + 1);
        &mut Arc::make_mut(items)[place]
    }

    /// The items, from the first on.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|group| group.iter())
    }
}

/// Extends a list to at least `len` items.
fn extend<T: Clone + Default>(items: &mut Arc<[T]>, len: usize) {
    if items.len() < len {
        *items = items.iter().cloned().chain(repeat_n(T::default(), len - items.len())).collect();
    }
}

impl<T> FromIterator<T> for Parts<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let (mut groups, mut group) = (Vec::new(), Vec::with_capacity(GROUP));
        for item in items {
            group.push(item);
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

impl<T> Clone for Parts<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}
