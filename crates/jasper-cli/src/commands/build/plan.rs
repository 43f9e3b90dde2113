//! The memory plan of a build.

use std::fmt;

use jasper::{MemoryPlan, MemorySpace, Part};
use serde::Serialize;

use crate::units;

/// Peak memory, by part.
#[derive(Serialize)]
pub struct Plan {
    host_bytes: u64,
    device_bytes: u64,
    parts: Vec<Allocation>,
}

#[derive(Serialize)]
struct Allocation {
    /// `host` or `device`.
    memory: String,
    name: &'static str,
    bytes: u64,
}

impl Plan {
    /// From the library's plan.
    pub fn new(plan: &MemoryPlan) -> Self {
        let allocation =
            |&Part { space, name, bytes }: &Part| Allocation { memory: space.to_string(), name, bytes };
        Self {
            host_bytes: plan.total(MemorySpace::Host),
            device_bytes: plan.total(MemorySpace::Device),
            parts: plan.parts().iter().filter(|part| part.bytes > 0).map(allocation).collect(),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Allocation { memory, name, bytes } in &self.parts {
            writeln!(f, "{memory:<6}  {name:<15}  {:>8}", units::bytes(*bytes))?;
        }
        write!(f, "total    {} of host memory", units::bytes(self.host_bytes))?;
        if self.device_bytes > 0 {
            write!(f, ", {} of device memory", units::bytes(self.device_bytes))?;
        }
        Ok(())
    }
}
