//! The launches that change and list sets.

use std::borrow::Cow;
use std::ops::Range;

use super::{Change, ListArgs, MARK_THREADS, MarkArgs, WORD};
use crate::scan::{TileStates, select_launch, select_tiles};
use crate::{Buffer, DevicePtr, Kernel, Launch, Stream};

/// The kernel that changes a set: reads each slot of the list once.
#[derive(Clone, Copy, Debug)]
pub struct Mark;

impl Kernel for Mark {
    type Args = MarkArgs;

    fn entry(&self) -> Cow<'static, str> {
        "mark_slots".into()
    }

    fn launch(&self, args: &MarkArgs) -> Launch {
        Launch::linear(args.len.div_ceil(MARK_THREADS), MARK_THREADS)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(MarkArgs) {
        super::mark::mark_slots
    }
}

/// Adds `slots` to the set `bits`, or removes them; returns the number that changed. Synchronizes.
///
/// # Errors
/// Of the device.
///
/// # Panics
/// If the set has no bit for a slot.
pub fn mark<S: Stream>(
    stream: &S,
    bits: &mut S::Buffer<u32>,
    slots: &[u32],
    change: Change,
) -> Result<u32, S::Error> {
    let words = bits.len();
    let within = |slot: &u32| ((slot / WORD) as usize) < words;
    assert!(slots.iter().all(within), "a slot is not among those of {words} words of a set");
    let len = slots.len() as u32;
    let (slots, mut changed) = (stream.upload(slots)?, stream.upload(&[0])?);
    let args = MarkArgs { slots: slots.input(), bits: bits.output(), changed: changed.output(), len, change };
    // SAFETY: the slots have just been uploaded, and each has a bit, as asserted.
    unsafe { stream.launch(&Mark, args)? };
    Ok(stream.download(&changed)?[0])
}

/// The kernel that lists the slots of a set: reads each word once.
#[derive(Clone, Copy, Debug)]
pub struct List;

impl Kernel for List {
    type Args = ListArgs;

    fn entry(&self) -> Cow<'static, str> {
        "list_slots".into()
    }

    fn launch(&self, args: &ListArgs) -> Launch {
        select_launch(&args.look_back)
    }

    #[cfg(feature = "kernels")]
    fn body(&self) -> unsafe fn(ListArgs) {
        super::list::list_slots
    }
}

/// The listed slots of a set, and the scratch memory to list them.
pub struct Slots<S: Stream> {
    /// `[capacity]`: the slots, ascending.
    pub slots: S::Buffer<u32>,
    count: S::Buffer<u32>,
    tiles: TileStates<S>,
}

impl<S: Stream> Slots<S> {
    /// Allocates lists of up to `capacity` slots: [`bytes`](Self::bytes) of device memory.
    ///
    /// # Errors
    /// Out of memory.
    pub fn allocate(stream: &S, capacity: u32) -> Result<Self, S::Error> {
        Ok(Self {
            slots: stream.allocate(capacity as usize)?,
            count: stream.allocate(1)?,
            tiles: TileStates::allocate(stream, select_tiles(capacity) as usize, 1)?,
        })
    }

    /// Bytes of device memory of lists of up to `capacity` slots: 4 per slot.
    pub const fn bytes(capacity: u32) -> u64 {
        (capacity as u64 + 1) * size_of::<u32>() as u64
            + TileStates::<S>::bytes(select_tiles(capacity) as usize, 1)
    }

    /// Lists the slots of `range`, which begins at a word, that are in `bits` and not in `except`. `None` stands for all slots
    /// and for none. Returns their number. One launch, synchronous: a bit per slot, and 4 bytes per listed slot.
    ///
    /// # Errors
    /// Of the device.
    ///
    /// # Panics
    /// If the range does not begin at a word, has more slots than there is room for, or ends past the end of a set.
    pub fn list(
        &mut self,
        stream: &S,
        bits: Option<&S::Buffer<u32>>,
        except: Option<&S::Buffer<u32>>,
        range: Range<u32>,
    ) -> Result<u32, S::Error> {
        let len = range.end.saturating_sub(range.start);
        assert!(range.start.is_multiple_of(WORD), "slot {} does not begin a word", range.start);
        assert!(len as usize <= self.slots.len(), "{len} slots are more than room for {}", self.slots.len());
        let words = range.end.div_ceil(WORD) as usize;
        for set in [bits, except].into_iter().flatten() {
            assert!(words <= set.len(), "slot {} is past the end of a set of {} words", range.end, set.len());
        }
        let from = |set: Option<&S::Buffer<u32>>| {
            set.map_or(DevicePtr::null(), |set| set.input().add((range.start / WORD) as usize))
        };
        let Self { slots, count, tiles } = self;
        tiles.launch(stream, select_tiles(len), |look_back| {
            let args = ListArgs {
                bits: from(bits),
                except: from(except),
                slots: slots.output(),
                count: count.output(),
                look_back,
                first: range.start,
                len,
            };
            // SAFETY: both sets have bits for the range, and there is room for it, as asserted; the round is of all
            // tiles.
            unsafe { stream.launch(&List, args) }
        })?;
        Ok(stream.download(count)?[0])
    }
}
