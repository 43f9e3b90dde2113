//! Memory plans: the allocations of a job, checked before it starts.

use std::fmt;
use std::str::FromStr;

/// A memory space, of the host or of a device. It says where a part of a plan is, or where the vectors of an index on a
/// device are stored; the adjacency table and codes of such an index are always in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum MemorySpace {
    /// Memory of the process. The device reads vectors there over PCIe.
    Host,
    /// Memory of the device.
    Device,
}

impl fmt::Display for MemorySpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// Text is not the name of a [`MemorySpace`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown memory space `{0}`; use device or host")]
pub struct ParseMemorySpaceError(String);

impl FromStr for MemorySpace {
    type Err = ParseMemorySpaceError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let space = [Self::Device, Self::Host].into_iter().find(|space| space.to_string() == name);
        space.ok_or_else(|| ParseMemorySpaceError(name.to_owned()))
    }
}

/// Bytes on the host and on the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Memory of the process.
    pub host: u64,
    /// Memory of the device.
    pub device: u64,
}

impl Bytes {
    fn at(self, space: MemorySpace) -> u64 {
        match space {
            MemorySpace::Host => self.host,
            MemorySpace::Device => self.device,
        }
    }
}

/// The allocations of a job, by name.
///
/// ```
/// use jasper_vamana::{Bytes, MemoryPlan, MemorySpace};
/// let plan = MemoryPlan::new("exact neighbors")
///     .part(MemorySpace::Device, "queries", 1 << 20)
///     .part(MemorySpace::Host, "results", 1 << 16);
/// // As many rows at once as fit besides the parts: each takes 512 bytes of the device.
/// let row = Bytes { device: 512, host: 0 };
/// let free = Bytes { device: 1 << 30, host: 1 << 30 };
/// assert_eq!(plan.batch("row", row, free, 1_000_000)?, 1_000_000);
/// assert!(plan.batch("row", row, Bytes { device: 3 << 20, host: 1 << 30 }, 1_000_000)? < 5000);
/// assert!(plan.check(Bytes { device: 1000, host: 1 << 30 }).is_err());
/// # Ok::<(), jasper_vamana::PlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    job: &'static str,
    remedy: &'static str,
    parts: Vec<Part>,
}

/// One allocation of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Part {
    /// The memory space of the allocation.
    #[cfg_attr(feature = "serde", serde(rename = "memory"))]
    pub space: MemorySpace,
    /// Name of the allocation.
    pub name: &'static str,
    /// Size of the allocation.
    pub bytes: u64,
}

/// A job needs more memory than there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} needs {needed} bytes of {space} memory ({}), {usable} can be used; {}",
    .plan.job, .plan.list(*.space), .plan.remedy
)]
pub struct PlanError {
    /// The job's plan.
    pub plan: MemoryPlan,
    /// The memory space that is too small.
    pub space: MemorySpace,
    /// Bytes that the job needs there.
    pub needed: u64,
    /// Bytes that a job may use there: see [`MemoryPlan::usable`].
    pub usable: u64,
}

impl MemoryPlan {
    /// A plan without parts; `job` is its name in errors.
    pub fn new(job: &'static str) -> Self {
        Self { job, remedy: "use smaller batches", parts: Vec::new() }
    }

    /// Sets the advice of errors to a user with less memory.
    #[must_use]
    pub fn remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// Adds an allocation.
    #[must_use]
    pub fn part(mut self, space: MemorySpace, name: &'static str, bytes: u64) -> Self {
        self.parts.push(Part { space, name, bytes });
        self
    }

    /// Adds the allocations of another plan to those of the same name.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        for &Part { space, name, bytes } in &other.parts {
            match self.parts.iter_mut().find(|part| part.space == space && part.name == name) {
                Some(part) => part.bytes += bytes,
                None => self.parts.push(Part { space, name, bytes }),
            }
        }
        self
    }

    /// Makes the allocation of this name at least as large, for steps that use the same memory one after the other.
    #[must_use]
    pub fn at_least(mut self, space: MemorySpace, name: &'static str, bytes: u64) -> Self {
        let part = self.parts.iter_mut().find(|part| part.space == space && part.name == name);
        match part {
            Some(part) => part.bytes = part.bytes.max(bytes),
            None => self.parts.push(Part { space, name, bytes }),
        }
        self
    }

    /// Removes the allocations of this name.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.parts.retain(|part| part.name != name);
        self
    }

    /// The allocations.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Bytes of all parts in one space; saturates.
    pub fn total(&self, space: MemorySpace) -> u64 {
        let here = self.parts.iter().filter(|part| part.space == space);
        here.fold(0, |sum, part| sum.saturating_add(part.bytes))
    }

    /// Names and sizes of the parts in one space.
    fn list(&self, space: MemorySpace) -> String {
        let here = self.parts.iter().filter(|part| part.space == space && part.bytes > 0);
        let parts: Vec<_> = here.map(|part| format!("{} {}", part.name, part.bytes)).collect();
        parts.join(", ")
    }

    /// The bytes that a job may use of `free` bytes. A thirty-second is left for the rounding of drivers and
    /// allocators, and for other users of the device.
    pub fn usable(free: u64) -> u64 {
        free - free / 32
    }

    /// What the parts leave of the [usable](Self::usable) bytes of one space with `free` bytes; `None` if they do not
    /// fit.
    pub fn left(&self, space: MemorySpace, free: u64) -> Option<u64> {
        Self::usable(free).checked_sub(self.total(space))
    }

    /// Checks that all parts fit into the `free` memory.
    ///
    /// # Errors
    /// Returns [`PlanError`], with the numbers.
    pub fn check(&self, free: Bytes) -> Result<(), PlanError> {
        for space in [MemorySpace::Device, MemorySpace::Host] {
            if self.left(space, free.at(space)).is_none() {
                let (needed, usable) = (self.total(space), Self::usable(free.at(space)));
                return Err(PlanError { plan: self.clone(), space, needed, usable });
            }
        }
        Ok(())
    }

    /// How many items, each named `name` and of `item` bytes, fit besides the parts: at least one, at most `max_items`.
    ///
    /// # Errors
    /// Returns [`PlanError`] if not even one fits.
    pub fn batch(
        &self,
        name: &'static str,
        item: Bytes,
        free: Bytes,
        max_items: usize,
    ) -> Result<usize, PlanError> {
        let spaces = [MemorySpace::Device, MemorySpace::Host];
        let with_one =
            spaces.iter().fold(self.clone(), |plan, &space| plan.part(space, name, item.at(space)));
        with_one.check(free)?;
        let fitting = spaces.map(|space| {
            let left = self.left(space, free.at(space)).expect("one fits");
            left.checked_div(item.at(space)).unwrap_or(u64::MAX)
        });
        Ok(usize::try_from(fitting[0].min(fitting[1])).unwrap_or(usize::MAX).clamp(1, max_items.max(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 32 << 20;

    fn plan() -> MemoryPlan {
        MemoryPlan::new("sort").part(MemorySpace::Device, "keys", 8 << 20).part(
            MemorySpace::Device,
            "values",
            4 << 20,
        )
    }

    #[test]
    fn what_cannot_fit_is_refused_with_numbers() {
        let usable = MemoryPlan::usable(ROOM);
        let exact = plan().part(MemorySpace::Device, "scratch", usable - (12 << 20));
        let free = Bytes { device: ROOM, host: 0 };
        assert_eq!(exact.check(free), Ok(()));
        let error = exact.part(MemorySpace::Device, "more", 1).check(free).unwrap_err();
        assert_eq!((error.space, error.needed, error.usable), (MemorySpace::Device, usable + 1, usable));
        let message = error.to_string();
        assert!(
            message.starts_with(&format!("sort needs {} bytes of device memory (keys 8388608,", usable + 1)),
            "{message}"
        );
        let host = plan().part(MemorySpace::Host, "staging", 1);
        assert_eq!(host.check(free).unwrap_err().space, MemorySpace::Host);
        assert!(plan().part(MemorySpace::Device, "all", u64::MAX).check(free).is_err());
    }

    #[test]
    fn vector_storage_is_parsed_from_its_name() {
        for storage in [MemorySpace::Host, MemorySpace::Device] {
            assert_eq!(storage.to_string().parse(), Ok(storage));
        }
        let error = "none".parse::<MemorySpace>().unwrap_err().to_string();
        assert_eq!(error, "unknown memory space `none`; use device or host");
    }

    #[test]
    fn a_batch_fills_what_is_free_and_no_more() {
        let free = Bytes { device: ROOM, host: ROOM };
        let item = Bytes { device: 1000, host: 3000 };
        let batch = plan().batch("row", item, free, usize::MAX).unwrap() as u64;
        let filled = |items: u64| {
            let parts = plan().part(MemorySpace::Device, "rows", items * 1000).part(
                MemorySpace::Host,
                "rows",
                items * 3000,
            );
            parts.check(free)
        };
        assert!(filled(batch).is_ok() && filled(batch + 1).is_err());
        assert_eq!(plan().batch("row", item, free, 7), Ok(7));
        assert_eq!(plan().batch("row", Bytes::default(), free, 9), Ok(9));
        let huge = Bytes { device: ROOM, host: 0 };
        assert!(plan().batch("row", huge, free, 7).unwrap_err().to_string().contains("row 33554432"));
    }
}
