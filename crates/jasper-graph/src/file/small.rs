//! The small sections, which are read and checked whenever a file is opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_core::{BitSet, Key, Slot};
use jasper_data::ReadAt;
use jasper_quant::{Quantizer, open};

use super::rule::Rule;
use super::table::{Section, Sections};
use super::{FileFault, IndexInfo};

/// A key and its slot: the record of the sections `further keys` and `deleted keys`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct KeyAt {
    pub(super) key: Key,
    pub(super) slot: u32,
    pub(super) reserved: u32,
}

impl From<(Key, Slot)> for KeyAt {
    fn from((key, slot): (Key, Slot)) -> Self {
        Self { key, slot: slot.get(), reserved: 0 }
    }
}

/// The contents of the small sections.
pub(super) struct Small {
    pub(super) tombstones: BitSet,
    pub(super) free: BitSet,
    pub(super) further: BTreeMap<Slot, Vec<Key>>,
    pub(super) deleted: BTreeMap<Key, Slot>,
    pub(super) start_points: Vec<Slot>,
    pub(super) quantizer: Option<Arc<dyn Quantizer>>,
}

/// Reads the quantizer of a file, if it has one, and checks that it fits the vectors and the section `codes`.
pub(super) fn quantizer(
    sections: &Sections<impl ReadAt>,
    info: &IndexInfo,
) -> Result<Option<Arc<dyn Quantizer>>, FileFault> {
    let codes = match (sections.find(Section::Quantizer), sections.find(Section::Codes)) {
        (None, None) => return Ok(None),
        (Some(_), Some(codes)) => codes,
        (Some(_), None) => return Err(FileFault::MissingSection(Section::Codes)),
        (None, Some(_)) => return Err(FileFault::MissingSection(Section::Quantizer)),
    };
    let invalid = |problem: String| FileFault::invalid(Section::Quantizer, problem);
    let quantizer = open(&sections.read(Section::Quantizer)?).map_err(|error| invalid(error.to_string()))?;
    let (metric, dimension) = (quantizer.metric(), quantizer.dimension());
    if (metric, dimension) != (info.metric, info.dimension) {
        return Err(invalid(format!(
            "it is for {metric} in {dimension} dimensions, and the index is for {} in {}",
            info.metric, info.dimension
        )));
    }
    let (bytes, wanted) = (codes.length, (info.slots * quantizer.layout().bytes()) as u64);
    if bytes != wanted {
        let problem = format!("it has {bytes} bytes, expected {wanted}");
        return Err(FileFault::invalid(Section::Codes, problem));
    }
    Ok(Some(Arc::from(quantizer)))
}

/// The rule of the codes of a quantizer.
pub(super) fn code_rule(quantizer: &dyn Quantizer) -> Rule {
    let layout = quantizer.layout();
    Rule::FiniteFactors { words: layout.words(), first: layout.factor_word() }
}

impl Small {
    pub(super) fn read(sections: &Sections<impl ReadAt>, info: &IndexInfo) -> Result<Self, FileFault> {
        let mut small = Self {
            tombstones: slot_set(sections, Section::Tombstones, info.tombstones, info.slots)?,
            free: slot_set(sections, Section::FreeSlots, info.free, info.slots)?,
            further: BTreeMap::new(),
            deleted: BTreeMap::new(),
            start_points: Vec::new(),
            quantizer: quantizer(sections, info)?,
        };
        if let Some(slot) = small.tombstones.iter().find(|&slot| small.free.contains(slot)) {
            let problem = format!("slot {slot} is a tombstone and free");
            return Err(FileFault::invalid(Section::FreeSlots, problem));
        }
        let vertex = |slot: u32| (slot as usize) < info.slots && !small.free.contains(slot as usize);
        let live = |slot: u32| vertex(slot) && !small.tombstones.contains(slot as usize);
        for KeyAt { key, slot, .. } in records(sections, Section::FurtherKeys, live)? {
            small.further.entry(Slot::new(slot)).or_default().push(key);
        }
        for KeyAt { key, slot, .. } in records(sections, Section::DeletedKeys, vertex)? {
            if small.deleted.insert(key, Slot::new(slot)).is_some() {
                return Err(FileFault::invalid(Section::DeletedKeys, format!("key {key} is repeated")));
            }
        }
        for slot in sections.items::<u32>(Section::StartPoints)? {
            if !vertex(slot) {
                return Err(no_vertex(Section::StartPoints, slot));
            }
            small.start_points.push(Slot::new(slot));
        }
        Ok(small)
    }
}

fn slot_set(
    sections: &Sections<impl ReadAt>,
    section: Section,
    expected: usize,
    slots: usize,
) -> Result<BitSet, FileFault> {
    let set = BitSet::from_words(sections.items(section)?);
    if set.len() != expected {
        let problem = format!("it holds {} slots, expected {expected}", set.len());
        return Err(FileFault::invalid(section, problem));
    }
    match (slots..slots.next_multiple_of(32)).find(|&slot| set.contains(slot)) {
        Some(slot) => Err(no_vertex(section, slot as u32)),
        None => Ok(set),
    }
}

fn records(
    sections: &Sections<impl ReadAt>,
    section: Section,
    allowed: impl Fn(u32) -> bool,
) -> Result<Vec<KeyAt>, FileFault> {
    let records: Vec<KeyAt> = sections.items(section)?;
    match records.iter().find(|record| !allowed(record.slot)) {
        Some(record) => Err(no_vertex(section, record.slot)),
        None => Ok(records),
    }
}

fn no_vertex(section: Section, slot: u32) -> FileFault {
    FileFault::invalid(section, format!("slot {slot} has no such vertex"))
}
