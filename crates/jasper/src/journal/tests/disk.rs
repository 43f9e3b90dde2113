//! Segments in memory, whose calls fail or wait on demand, and which lose what a crash may lose.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use jasper_core::sync::lock;
use jasper_data::ReadAt;

use super::super::segment::{NewSegment, Segment, Segments};

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    state: Arc<Mutex<State>>,
    released: Arc<Condvar>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: BTreeMap<u64, Contents>,
    pub(super) calls: u64,
    pub(super) syncs: u64,
    /// The calls that fail.
    pub(super) failing: Range<u64>,
    /// A folder; calls fail while there is a snapshot.
    pub(super) full_with_snapshot: Option<PathBuf>,
    /// Whether calls wait.
    is_held: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Contents {
    pub(super) bytes: Vec<u8>,
    /// How many of them a power cut leaves.
    pub(super) synced: usize,
    /// Readers hold clones.
    readers: Arc<()>,
}

/// How long calls wait at most.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

impl Disk {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn with_segments(segments: impl Iterator<Item = (u64, Contents)>) -> Self {
        let disk = Self::default();
        disk.state().segments = segments.collect();
        disk
    }

    /// The disk as a process finds it that starts after this one has ended now. It reads what is not synced.
    pub(super) fn after_crash(&self) -> Self {
        let copy = |contents: &Contents| Contents { readers: Arc::default(), ..contents.clone() };
        Self::with_segments(self.state().segments.iter().map(|(&number, contents)| (number, copy(contents))))
    }

    /// The disk after a power cut that left at most `kept` bytes of those that were not synced.
    pub(super) fn after_power_cut(&self, kept: usize) -> Self {
        let cut = |Contents { bytes, synced, .. }: &Contents| {
            let len = bytes.len().min(synced + kept);
            Contents { bytes: bytes[..len].to_vec(), synced: len, ..Contents::default() }
        };
        let state = self.state();
        let segments = state.segments.iter().map(|(&number, contents)| (number, cut(contents)));
        // Nor is the name there of a file that was never synced.
        Self::with_segments(segments.filter(|(_, contents)| !contents.bytes.is_empty()))
    }

    /// Makes calls wait.
    pub(super) fn hold(&self) {
        self.state().is_held = true;
    }

    pub(super) fn release(&self) {
        self.state().is_held = false;
        self.released.notify_all();
    }

    /// Makes some of the next calls fail.
    pub(super) fn fail(&self, calls: Range<u64>) {
        let mut state = self.state();
        state.failing = state.calls + calls.start..state.calls.saturating_add(calls.end);
    }

    /// Calls `change` with whether the call fails.
    fn call<R>(&self, change: impl FnOnce(&mut State, bool) -> R) -> io::Result<R> {
        let is_held = |state: &mut State| state.is_held;
        let (mut state, timeout) = self.released.wait_timeout_while(self.state(), PATIENCE, is_held).unwrap();
        if timeout.timed_out() {
            state.is_held = false;
            return Err(io::ErrorKind::TimedOut.into());
        }
        state.calls += 1;
        let is_full = state.full_with_snapshot.as_ref().is_some_and(|folder| {
            let mut names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.any(|name| name.as_encoded_bytes().starts_with(b"index-"))
        });
        let fails = is_full || state.failing.contains(&(state.calls - 1));
        let result = change(&mut state, fails);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(result) }
    }
}

/// A segment of a disk.
struct OnDisk {
    disk: Disk,
    number: u64,
    /// Before the first sync.
    unnamed: Option<Vec<u8>>,
    _readers: Arc<()>,
}

impl ReadAt for OnDisk {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.state().segments[&self.number].bytes.len() as u64)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.disk.state().segments[&self.number].bytes.read_exact_at(bytes, offset)
    }
}

impl NewSegment for OnDisk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.disk.call(|state, fails| {
            // A call that fails has written a part.
            let bytes = if fails { &bytes[..bytes.len() / 2] } else { bytes };
            match &mut self.unnamed {
                Some(unnamed) => unnamed.extend(bytes),
                None => state.segments.get_mut(&self.number).unwrap().bytes.extend(bytes),
            }
        })
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.call(|state, fails| {
            state.syncs += 1;
            if let Some(bytes) = self.unnamed.take() {
                // One that fails may give it its name nevertheless.
                state.segments.insert(self.number, Contents { bytes, ..Contents::default() });
            }
            let contents = state.segments.get_mut(&self.number).unwrap();
            if !fails {
                contents.synced = contents.bytes.len();
            }
        })
    }
}

impl Segments for Disk {
    fn list(&self) -> io::Result<Vec<u64>> {
        Ok(self.state().segments.keys().copied().collect())
    }

    fn open(&self, number: u64) -> io::Result<Option<Arc<Segment>>> {
        let readers = self.state().segments.get(&number).map(|contents| Arc::clone(&contents.readers));
        let open = |_readers| OnDisk { disk: self.clone(), number, unnamed: None, _readers };
        Ok(readers.map(|readers| Arc::new(open(readers)) as Arc<Segment>))
    }

    fn create(&self, number: u64) -> io::Result<Box<dyn NewSegment>> {
        self.call(|state, _| assert!(!state.segments.contains_key(&number)))?;
        let unnamed = Some(Vec::new());
        Ok(Box::new(OnDisk { disk: self.clone(), number, unnamed, _readers: Arc::default() }))
    }

    fn remove(&self, number: u64) -> io::Result<bool> {
        self.call(|state, fails| {
            let contents = state.segments.get(&number);
            let is_read = contents.is_some_and(|contents| Arc::strong_count(&contents.readers) > 1);
            if !fails && !is_read {
                state.segments.remove(&number);
            }
            !is_read
        })
    }
}
