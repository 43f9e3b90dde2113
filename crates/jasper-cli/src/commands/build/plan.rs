//! What a build takes, as it is told.

use std::fmt;

use jasper::{MemoryPlan, MemorySpace, Part};
use serde::Serialize;

use crate::human;

/// Bytes at the peak, by part.
#[derive(Serialize)]
pub struct Plan {
    host_bytes: u64,
    device_bytes: u64,
    parts: Vec<Allocation>,
}

#[derive(Serialize)]
struct Allocation {
    /// `host` or `device`.
    place: String,
    name: &'static str,
    bytes: u64,
}

impl Plan {
    /// The plan as it is told.
    pub fn of(plan: &MemoryPlan) -> Self {
        let told = |&Part { space, name, bytes }: &Part| Allocation { place: space.to_string(), name, bytes };
        Self {
            host_bytes: plan.total(MemorySpace::Host),
            device_bytes: plan.total(MemorySpace::Device),
            parts: plan.parts().iter().filter(|part| part.bytes > 0).map(told).collect(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Allocation { place, name, bytes } in &self.parts {
            writeln!(f, "{place:<6}  {name:<15}  {:>8}", human::bytes(*bytes))?;
        }
        write!(f, "in all   {} of the host", human::bytes(self.host_bytes))?;
        if self.device_bytes > 0 {
            write!(f, ", {} of the device", human::bytes(self.device_bytes))?;
        }
        Ok(())
    }
}
