//! The small sections and the attributes, which are read and checked whenever a file is opened.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use jasper_attributes::{Attributes, Column};
use jasper_core::{BitSet, Key, Metric, Slot};
use jasper_data::ReadAt;
use jasper_quant::{Quantizer, open};

use super::rule::Rule;
use super::table::{Section, Sections};
use super::{FileFault, IndexInfo};
use crate::parts::SlotSet;
use crate::{Center, KeyMap, VectorTable};

/// A key and its slot: the record of the sections `further keys` and `deleted keys`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct KeyRecord {
    pub(super) key: Key,
    pub(super) slot: Slot,
    pub(super) reserved: u32,
}

impl From<(Key, Slot)> for KeyRecord {
    fn from((key, slot): (Key, Slot)) -> Self {
        Self { key, slot, reserved: 0 }
    }
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

/// Numbers of the section `center` before the coordinates.
pub(super) const CENTER_HEADER: usize = 2;

/// The section `center`. What it does not have is in the section `params`.
pub(super) fn center_items(vectors: &VectorTable) -> Vec<f32> {
    let center = vectors.center();
    let [_, from_center] = center.largest_squared_norms;
    [&[center.zero_above, from_center], vectors.center_coordinates()].concat()
}

/// Reads the center of the vectors of a file; zeros for metrics that have none.
pub(super) fn center(sections: &Sections<impl ReadAt>, info: &IndexInfo) -> Result<Center, FileFault> {
    if info.metric != Metric::InnerProduct {
        return Ok(Center::default());
    }
    let items: Vec<f32> = sections.items(Section::Center)?;
    let &[zero_above, from_center, ref coordinates @ ..] = &items[..] else {
        unreachable!("the length was checked");
    };
    if !items.iter().all(|x| x.is_finite()) || from_center < 0.0 {
        return Err(FileFault::invalid(Section::Center, Rule::FiniteF32.broken()));
    }
    let largest_squared_norms = [info.largest_squared_norm, from_center];
    Ok(Center { zero_above, largest_squared_norms, ..Center::new(coordinates, info.row_stride()) })
}

/// Reads the keys of a file, and the sets of tombstones and free slots. The table of first keys is left empty.
pub(super) fn keys(sections: &Sections<impl ReadAt>, info: &IndexInfo) -> Result<KeyMap, FileFault> {
    let mut keys = KeyMap {
        tombstones: slot_set(sections, Section::Tombstones, info.tombstones, info.slots)?,
        free: slot_set(sections, Section::FreeSlots, info.free, info.slots)?,
        next_key: info.next_key,
        ..KeyMap::new()
    };
    if let Some(slot) = keys.tombstones.iter().find(|&slot| keys.free.contains(slot)) {
        let problem = format!("{slot} is a tombstone and free");
        return Err(FileFault::invalid(Section::FreeSlots, problem));
    }
    let is_vertex = |slot| is_vertex(&keys, info, slot);
    let is_live = |slot| is_vertex(slot) && !keys.is_tombstone(slot);
    let further = records(sections, Section::FurtherKeys, is_live)?;
    let deleted = records(sections, Section::DeletedKeys, is_vertex)?;
    for (key, slot) in further {
        keys.further.push(slot, key);
    }
    for (key, slot) in deleted {
        if keys.deleted.insert(key, slot).is_some() {
            return Err(FileFault::invalid(Section::DeletedKeys, format!("key {key} is repeated")));
        }
    }
    keys.attributes = attributes(sections)?;
    Ok(keys)
}

/// Reads the attributes, if a file has any. [`check_attributes`] compares their keys, once all keys are there.
fn attributes(sections: &Sections<impl ReadAt>) -> Result<Attributes, FileFault> {
    if sections.find(Section::Attributes).is_none() {
        return Ok(Attributes::default());
    }
    let attributes = Attributes::decode(&sections.read(Section::Attributes)?);
    attributes.map_err(|error| FileFault::invalid(Section::Attributes, error.to_string()))
}

/// Checks that attributes are of the live keys. If not, a key could neither be filtered nor be given attributes.
pub(super) fn check_attributes(keys: &KeyMap) -> Result<(), FileFault> {
    let mut live = keys.live_slots().flat_map(|slot| keys.keys_of(slot));
    if keys.attributes.is_empty() || keys.attributes.has_keys(&mut live) {
        return Ok(());
    }
    Err(FileFault::invalid(Section::Attributes, "its keys are not those of the index"))
}

/// Reads the columns of the attributes, if a file has any, without their values.
pub(super) fn columns(sections: &Sections<impl ReadAt>) -> Result<Vec<Column>, FileFault> {
    let Some(entry) = sections.find(Section::Attributes) else { return Ok(Vec::new()) };
    let read = |bytes: &mut [u8], offset| sections.source.read_exact_at(bytes, entry.offset + offset);
    Attributes::read_columns(entry.length, read).or_else(|error| {
        // It is damaged, if its checksum says so.
        sections.read(Section::Attributes)?;
        Err(FileFault::invalid(Section::Attributes, error.to_string()))
    })
}

/// Reads the start points of a file.
pub(super) fn start_points(
    sections: &Sections<impl ReadAt>,
    info: &IndexInfo,
    keys: &KeyMap,
) -> Result<Vec<Slot>, FileFault> {
    let start_points: Vec<Slot> = sections.items(Section::StartPoints)?;
    match start_points.iter().find(|&&slot| !is_vertex(keys, info, slot)) {
        Some(&slot) => Err(no_vertex(Section::StartPoints, slot)),
        None => Ok(start_points),
    }
}

/// Whether a slot is in range and not free.
fn is_vertex(keys: &KeyMap, info: &IndexInfo, slot: Slot) -> bool {
    slot.index() < info.slots && !keys.is_free(slot)
}

fn slot_set(
    sections: &Sections<impl ReadAt>,
    section: Section,
    expected: usize,
    slots: usize,
) -> Result<SlotSet, FileFault> {
    let set = SlotSet::from(BitSet::from_words(sections.items(section)?));
    if set.len() != expected {
        let problem = format!("it holds {} slots, expected {expected}", set.len());
        return Err(FileFault::invalid(section, problem));
    }
    let beyond = (slots..slots.next_multiple_of(32)).map(Slot::from_index);
    match beyond.into_iter().find(|&slot| set.contains(slot)) {
        Some(slot) => Err(no_vertex(section, slot)),
        None => Ok(set),
    }
}

fn records(
    sections: &Sections<impl ReadAt>,
    section: Section,
    is_allowed: impl Fn(Slot) -> bool,
) -> Result<Vec<(Key, Slot)>, FileFault> {
    let records: Vec<KeyRecord> = sections.items(section)?;
    match records.iter().find(|record| !is_allowed(record.slot)) {
        Some(record) => Err(no_vertex(section, record.slot)),
        None => Ok(records.into_iter().map(|KeyRecord { key, slot, .. }| (key, slot)).collect()),
    }
}

fn no_vertex(section: Section, slot: Slot) -> FileFault {
    FileFault::invalid(section, format!("{slot} has no such vertex"))
}
