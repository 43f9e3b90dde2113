//! The slots of filters in device memory.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};

use gpu_kernels::{Buffer as _, Stream};
use jasper_core::sync::lock;
use jasper_graph::AllowedSlots;

use super::AsyncReaders;

/// How slots are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotFormat {
    /// A bit per slot of the graph.
    Bitmap,
    /// The slots, ascending.
    List,
}

/// What searches with key filters have copied to the device, until the filter changes or is dropped.
pub(crate) struct DeviceFilters<S: Stream>(Mutex<State<S>>);

struct State<S: Stream> {
    /// Allocates and frees the memory, from the first use on. The stream of a search may be one of another library, which
    /// is destroyed sooner.
    stream: Option<S>,
    kept: Vec<Kept<S>>,
}

struct Kept<S: Stream> {
    of: Weak<AllowedSlots>,
    format: SlotFormat,
    words: Arc<S::Buffer<u32>>,
}

impl<S: Stream> Default for DeviceFilters<S> {
    fn default() -> Self {
        Self(Mutex::new(State { stream: None, kept: Vec::new() }))
    }
}

impl<S: Stream> fmt::Debug for DeviceFilters<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceFilters")
    }
}

impl<S: Stream> DeviceFilters<S> {
    /// The slots on the device, complete: `len` words that `words` returns, and that are copied if they are not there.
    /// A graph that has grown needs a longer bitmap.
    ///
    /// A launch that reads them must be complete before the result is dropped, or be marked in `async_readers` by then: the
    /// memory is freed after all work of the device if there are such readers.
    pub(crate) fn get(
        &self,
        of_search: &S,
        async_readers: &AsyncReaders,
        slots: &Arc<AllowedSlots>,
        format: SlotFormat,
        len: usize,
        words: impl FnOnce() -> Vec<u32>,
    ) -> Result<Arc<S::Buffer<u32>>, S::Error> {
        let State { stream, kept } = &mut *lock(&self.0);
        let is_of = |kept: &Kept<S>| kept.of.as_ptr() == Arc::as_ptr(slots) && kept.format == format;
        let is_wanted = |kept: &&Kept<S>| is_of(kept) && kept.words.len() == len;
        if let Some(known) = kept.iter().find(is_wanted) {
            return Ok(Arc::clone(&known.words));
        }
        // What a call still holds stays, so that it is always freed here.
        let is_freed = |kept: &Kept<S>| {
            (kept.of.strong_count() == 0 || is_of(kept)) && Arc::strong_count(&kept.words) == 1
        };
        if kept.iter().any(is_freed) {
            async_readers.wait_for_filters(of_search)?;
        }
        kept.retain(|kept| !is_freed(kept));
        let stream = match stream {
            Some(stream) => stream,
            None => stream.insert(of_search.another()?),
        };
        let words = Arc::new(stream.upload(&words())?);
        stream.synchronize()?;
        kept.push(Kept { of: Arc::downgrade(slots), format, words: Arc::clone(&words) });
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::emulator::Emulator;
    use gpu_kernels::emulated::EmulatedStream;
    use jasper_core::{BuildParams, ElementKind, Metric};
    use jasper_graph::{Graph, KeyFilter};

    use super::*;

    #[test]
    fn slots_are_copied_once_until_they_change() {
        let mut graph = Graph::new(ElementKind::U8, Metric::L2, 16, BuildParams::default()).unwrap();
        for key in 0..70 {
            let slot = graph.add_vector(&[key as u8; 16], 0.0).unwrap();
            graph.keys_mut().assign(key, slot).unwrap();
        }
        let (stream, kept) = (EmulatedStream::new(Emulator::new(1)), DeviceFilters::default());
        let filter = KeyFilter::from_iter([1, 40, 69]);
        let get = |slots: &Arc<AllowedSlots>, format, len| {
            let words = || (0..len as u32).collect();
            kept.get(&stream, &AsyncReaders::default(), slots, format, len, words).unwrap()
        };
        let slots = graph.keys().allowed_slots(&filter);
        let bitmap = get(&slots, SlotFormat::Bitmap, 3);
        assert!(Arc::ptr_eq(&bitmap, &get(&slots, SlotFormat::Bitmap, 3)));
        // While a call holds the old one, both stay.
        get(&slots, SlotFormat::Bitmap, 5);
        assert_eq!(kept.0.lock().unwrap().kept.len(), 2);
        drop(bitmap);
        assert_eq!(stream.download(&get(&slots, SlotFormat::List, 2)).unwrap(), [0, 1]);
        // The graph has grown.
        assert_eq!(stream.download(&get(&slots, SlotFormat::Bitmap, 4)).unwrap(), [0, 1, 2, 3]);
        assert_eq!(kept.0.lock().unwrap().kept.len(), 2);
        // The filter selects other slots.
        drop(slots);
        graph.keys_mut().delete(40).unwrap();
        let slots = graph.keys().allowed_slots(&filter);
        get(&slots, SlotFormat::Bitmap, 4);
        assert_eq!(kept.0.lock().unwrap().kept.len(), 1);
    }
}
