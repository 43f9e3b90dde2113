//! What was released at which address: releases and acquires, and fences around relaxed operations.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use super::clock::Horizon;

/// The knowledge that an acquire finds at an address. Most launches release nothing, and pay one look at a flag.
#[derive(Default)]
pub struct Releases {
    any: AtomicBool,
    told: Mutex<HashMap<usize, Arc<Horizon>>>,
}

/// What an operation does to the knowledge at its address.
pub enum Tell {
    /// A load.
    Nothing,
    /// A store: it stands for this alone.
    Only(Arc<Horizon>),
    /// An update: what it replaces stays told, with this in addition.
    Also(Option<Arc<Horizon>>),
}

impl Releases {
    /// Runs an operation on memory together with what it tells; gives back what was told before.
    pub fn with<R>(&self, address: usize, tell: Tell, run: impl FnOnce() -> R) -> (R, Option<Arc<Horizon>>) {
        let told = match tell {
            Tell::Only(_) | Tell::Also(Some(_)) => {
                self.any.store(true, SeqCst);
                true
            }
            Tell::Nothing | Tell::Also(None) => false,
        };
        if !told && !self.any.load(SeqCst) {
            return (run(), None);
        }
        let mut table = self.told.lock().expect("no panic holds the releases");
        let found = table.get(&address).cloned();
        match (tell, &found) {
            (Tell::Only(horizon), _) | (Tell::Also(Some(horizon)), None) => {
                table.insert(address, horizon);
            }
            (Tell::Also(Some(horizon)), Some(found)) => {
                table.insert(address, joined(found, &horizon));
            }
            (Tell::Nothing | Tell::Also(None), _) => {}
        }
        (run(), found)
    }
}

/// What either knows.
pub fn joined(one: &Arc<Horizon>, other: &Arc<Horizon>) -> Arc<Horizon> {
    if one == other {
        return one.clone();
    }
    let mut both = Horizon::clone(one);
    both.join(other);
    Arc::new(both)
}
