//! The section `tuned searches`: there only where something was tuned, and skipped by readers that do not know it.

use bytemuck::{Pod, Zeroable};

use jasper_data::ReadAt;

use super::FileFault;
use super::table::{Section, Table};
use crate::{TunedLaunch, TunedSearch};

/// A search as it is in the file.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Record {
    /// UTF-8, then zeros.
    device: [u8; DEVICE_BYTES],
    target: f64,
    recall: f64,
    queries_per_second: f64,
    k: u32,
    batch: u32,
    beam_width: u32,
    /// 0 where there is no launch.
    warps: u32,
    expansions: u32,
    filter_slots: u32,
    state: u32,
    reserved: [u32; 3],
}

const DEVICE_BYTES: usize = 64;
const _: () = assert!(size_of::<Record>() == 128);

/// The searches of a file, none if the section is not there.
pub(super) fn read(source: &(impl ReadAt + ?Sized), table: &Table) -> Result<Vec<TunedSearch>, FileFault> {
    let Some(entry) = table.find(Section::TunedSearches) else { return Ok(Vec::new()) };
    let bytes = super::small::read(source, entry)?;
    let records: Vec<Record> = bytemuck::pod_collect_to_vec(&bytes);
    let searches: Result<Vec<TunedSearch>, String> = records.iter().map(Record::validate).collect();
    let searches = searches.and_then(|searches| {
        let rising = searches.is_sorted_by(|a, b| a.order(b).is_lt());
        if rising { Ok(searches) } else { Err("its searches are in no order, or one is there twice".into()) }
    });
    searches.map_err(|problem| FileFault::invalid(Section::TunedSearches, problem))
}

impl Record {
    fn validate(&self) -> Result<TunedSearch, String> {
        let end = self.device.iter().position(|&byte| byte == 0).unwrap_or(DEVICE_BYTES);
        let device = std::str::from_utf8(&self.device[..end]).map_err(|_| "a device's name is no UTF-8")?;
        if self.k == 0 || self.batch == 0 || self.beam_width < self.k {
            let Self { k, batch, beam_width, .. } = self;
            return Err(format!("beam width {beam_width} for k {k} in batches of {batch}"));
        }
        if !(self.queries_per_second >= 0.0 && self.queries_per_second.is_finite()) {
            return Err(format!("{} queries a second", self.queries_per_second));
        }
        for share in [self.target, self.recall] {
            if !(0.0..=1.0).contains(&share) {
                return Err(format!("recall {share} is not between 0 and 1"));
            }
        }
        let launch = (self.warps > 0).then_some(TunedLaunch {
            warps: self.warps,
            expansions: self.expansions,
            filter_slots: self.filter_slots,
        });
        Ok(TunedSearch {
            device: device.to_owned(),
            k: self.k as usize,
            target: self.target,
            batch: self.batch as usize,
            beam_width: self.beam_width as usize,
            launch,
            recall: self.recall,
            queries_per_second: self.queries_per_second,
            state: self.state,
        })
    }
}

impl From<&TunedSearch> for Record {
    fn from(tuned: &TunedSearch) -> Self {
        let name = &tuned.device[..tuned.device.floor_char_boundary(DEVICE_BYTES)];
        let mut device = [0; DEVICE_BYTES];
        device[..name.len()].copy_from_slice(name.as_bytes());
        let narrow = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let TunedLaunch { warps, expansions, filter_slots } =
            tuned.launch.unwrap_or(TunedLaunch { warps: 0, expansions: 0, filter_slots: 0 });
        Self {
            device,
            target: tuned.target,
            recall: tuned.recall,
            queries_per_second: tuned.queries_per_second,
            k: narrow(tuned.k),
            batch: narrow(tuned.batch),
            beam_width: narrow(tuned.beam_width),
            warps,
            expansions,
            filter_slots,
            state: tuned.state,
            reserved: [0; 3],
        }
    }
}
