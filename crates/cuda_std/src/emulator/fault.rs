//! Faults: which kernel, block and thread, where in the source, and at which address.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use thiserror::Error;

/// A line of a kernel: the call of a function of this crate.
pub type Site = &'static Location<'static>;

/// The thread, and the place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The name given to the launch.
    pub kernel: Arc<str>,
    /// The block in x and y.
    pub block: (u32, u32),
    /// The thread of the block.
    pub thread: u32,
    /// The call that failed; none for a panic of the kernel itself.
    pub site: Option<Site>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, thread {}", block_of(&self.kernel, self.block), self.thread)?;
        self.site.map_or(Ok(()), |site| write!(f, ", at {site}"))
    }
}

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessKind {
    /// A plain load.
    Load,
    /// A plain store.
    Store,
    /// A relaxed load.
    AtomicLoad,
    /// An atomic update, or a relaxed store.
    AtomicStore,
}

impl AccessKind {
    /// Whether two such accesses by different threads race if neither happened before the other.
    pub(super) fn races(self, other: Self) -> bool {
        (self.writes() || other.writes()) && !(self.atomic() && other.atomic())
    }

    pub(super) fn writes(self) -> bool {
        matches!(self, Self::Store | Self::AtomicStore)
    }

    pub(super) fn atomic(self) -> bool {
        matches!(self, Self::AtomicLoad | Self::AtomicStore)
    }
}

impl fmt::Display for AccessKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::AtomicLoad => "atomic load",
            Self::AtomicStore => "atomic store",
        })
    }
}

/// A place in memory, in the words of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// In the block's shared memory, or past it.
    Shared {
        /// Bytes from the start of shared memory.
        offset: u32,
        /// Size of shared memory in bytes.
        bytes: u32,
    },
    /// In a buffer, or nearest to it.
    Buffer {
        /// The buffer's name.
        name: Arc<str>,
        /// Bytes from the start of the buffer; negative before it.
        offset: i64,
        /// Bytes of an element.
        element_bytes: u32,
        /// Number of elements.
        len: u64,
    },
    /// There are no buffers.
    Nowhere(usize),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { offset, bytes } => write!(f, "byte {offset} of {bytes} of shared memory"),
            Self::Buffer { name, offset, element_bytes, len } => {
                let element = offset.div_euclid(i64::from(*element_bytes));
                write!(f, "`{name}` {offset:+} bytes (element {element} of {len})")
            }
            Self::Nowhere(address) => write!(f, "address {address:#x}, and the emulator has no buffer"),
        }
    }
}

/// An access of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Kind of the access.
    pub kind: AccessKind,
    /// Number of bytes.
    pub bytes: u32,
    /// Address of the first byte.
    pub address: Address,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes at {}", self.kind, self.bytes, self.address)
    }
}

/// The earlier one of two conflicting accesses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EarlierAccess {
    /// Kind of the access.
    pub kind: AccessKind,
    /// Block of the access.
    pub block: (u32, u32),
    /// Thread of the access.
    pub thread: u32,
    /// The call in the source.
    pub site: Site,
}

impl fmt::Display for EarlierAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, block: (x, y), thread, site } = self;
        write!(f, "{kind} by block ({x}, {y}), thread {thread}, at {site}")
    }
}

/// Threads of a block that wait for the same event, or have returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The threads, in ascending order.
    pub threads: Vec<u32>,
    /// Where they wait (`at sync_threads`) or what for; none if they have returned.
    pub what: Option<String>,
    /// The call that they wait in.
    pub site: Option<Site>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = self.threads.len() == 1;
        f.write_str(if one { "thread " } else { "threads " })?;
        for (number, run) in self.threads.chunk_by(|a, b| a + 1 == *b).enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            match run {
                [one] => write!(f, "{comma}{one}")?,
                _ => write!(f, "{comma}{}..={}", run[0], run[run.len() - 1])?,
            }
        }
        match &self.what {
            Some(what) => write!(f, " {} {what}", if one { "waits" } else { "wait" })?,
            None => write!(f, " {} returned", if one { "has" } else { "have" })?,
        }
        self.site.map_or(Ok(()), |site| write!(f, " (at {site})"))
    }
}

/// Describes a block.
fn block_of(kernel: &str, (x, y): (u32, u32)) -> String {
    format!("kernel `{kernel}`, block ({x}, {y})")
}

/// The lines of a fault that list what threads wait for.
fn lines(groups: &[Waiting]) -> String {
    groups.iter().map(|group| format!("\n  {group}")).collect()
}

/// An error of a launch. It ends the launch; earlier writes remain.
#[derive(Clone, Error, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// An access outside of all buffers, or of shared memory.
    #[error("{at}: {access} is out of bounds")]
    OutOfBounds {
        /// The thread.
        at: Place,
        /// The access.
        access: Access,
    },
    /// An address that is not a multiple of the size of the access.
    #[error("{at}: {access} is misaligned; the address must be a multiple of {}", .access.bytes)]
    Misaligned {
        /// The thread.
        at: Place,
        /// The access.
        access: Access,
    },
    /// A load of bytes that nothing has written.
    #[error("{at}: {access} reads what was never written")]
    Uninitialized {
        /// The thread.
        at: Place,
        /// The access.
        access: Access,
    },
    /// A data race.
    #[error("{at}: {access} races with the {other}; no barrier, sync_warp or fence orders the two")]
    Race {
        /// The thread of the later access.
        at: Place,
        /// The later access.
        access: Access,
        /// The earlier access.
        other: Box<EarlierAccess>,
    },
    /// A write to memory that the same launch reads by read-only loads, which may return old or new bytes.
    #[error(
        "{at}: {access} and the {other} of one launch; one of them is a load of data that the launch must not write"
    )]
    ReadOnly {
        /// The thread.
        at: Place,
        /// The access.
        access: Access,
        /// The other access.
        other: Box<EarlierAccess>,
    },
    /// Some threads wait at a block barrier, and the others have returned.
    #[error("{}: a barrier was reached by a part of the block:{}", block_of(.kernel, *.block), lines(.groups))]
    PartialBarrier {
        /// The name given to the launch.
        kernel: Arc<str>,
        /// The block in x and y.
        block: (u32, u32),
        /// What the threads wait for.
        groups: Vec<Waiting>,
    },
    /// Deadlock: no thread of the block can proceed.
    #[error("{} is stuck:{}", block_of(.kernel, *.block), lines(.groups))]
    Deadlock {
        /// The name given to the launch.
        kernel: Arc<str>,
        /// The block in x and y.
        block: (u32, u32),
        /// What the threads wait for.
        groups: Vec<Waiting>,
    },
    /// An invalid call of a collective.
    #[error("{at}: {what}")]
    Misuse {
        /// The thread.
        at: Place,
        /// The problem and the requirement.
        what: String,
    },
    /// A shuffle reads a lane that does not participate.
    #[error("{at}: the shuffle of lanes {mask:#010x} reads lane {lane}, which takes no part in it")]
    InactiveLane {
        /// The thread.
        at: Place,
        /// The lane that the shuffle reads.
        lane: u32,
        /// The lanes of the shuffle.
        mask: u32,
    },
    /// The kernel panicked, which is a trap on the device.
    #[error("{at}: panicked: {message}")]
    Panic {
        /// The thread.
        at: Place,
        /// The message of the panic.
        message: String,
    },
    /// Invalid launch parameters.
    #[error("kernel `{kernel}`: {parameter} ({value}) must be {bound}")]
    BadLaunch {
        /// The name given to the launch.
        kernel: Arc<str>,
        /// The invalid parameter.
        parameter: &'static str,
        /// The value given.
        value: u64,
        /// The requirement.
        bound: &'static str,
    },
    /// The host reads elements that were never written.
    #[error(
        "element {element} of `{buffer}` ({len} elements) was never written; a launch must write all that is read"
    )]
    Unwritten {
        /// The buffer's name.
        buffer: Arc<str>,
        /// The first such element.
        element: u64,
        /// Elements of the buffer.
        len: u64,
    },
}

/// Formats the message, as `Display` does, because a test that unwraps a launch shows this.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
