//! Changes as the journal stores them.

use std::borrow::Cow;
use std::io;

use jasper_attributes::Frame;
use jasper_core::{Key, Vectors, no_progress, with_element};
use jasper_graph::TunedSearch;
use jasper_quant::Quantization;
use jasper_vamana::{NewVectors, OnConflict, UpdateError};

use super::log::Log;
use super::store::{CHUNK_BYTES, StoredChange};
use crate::changes::{InsertEntries, InsertKeys};
use crate::index::DeleteKeys;
use crate::inner::{CodeCheck, IndexInner};

/// A change, with what determines its result.
pub(crate) enum Record<'a> {
    Insert(NewVectors<'a>),
    InsertAuto(Vectors<'a>, Option<&'a Frame>),
    SetAttributes(&'a [Key], &'a Frame),
    Delete(&'a [Key]),
    Undelete(&'a [Key]),
    Consolidate,
    Compact,
    Quantize(Quantization),
    DropCodes,
    DropVectors,
    /// All tuned searches, encoded as in the index file.
    Tune(Vec<u8>),
}

impl Record<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Insert(NewVectors { on_conflict, attributes, .. }) => match (on_conflict, attributes) {
                (OnConflict::Refuse, None) => "insert",
                (OnConflict::Refuse, Some(_)) => "insert with attributes",
                (OnConflict::Replace, None) => "upsert",
                (OnConflict::Replace, Some(_)) => "upsert with attributes",
            },
            Self::InsertAuto(..) => "insert auto",
            Self::SetAttributes(..) => "set attributes",
            Self::Delete(_) => "delete",
            Self::Undelete(_) => "undelete",
            Self::Consolidate => "consolidate",
            Self::Compact => "compact",
            Self::Quantize(_) => "quantize",
            Self::DropCodes => "drop codes",
            Self::DropVectors => "drop vectors",
            Self::Tune(_) => "tune",
        }
    }

    fn argument(&self) -> Cow<'_, [u8]> {
        match self {
            Self::Insert(NewVectors { keys, attributes: None, .. })
            | Self::Delete(keys)
            | Self::Undelete(keys) => Cow::Borrowed(bytemuck::cast_slice(keys)),
            Self::Insert(NewVectors { keys, attributes: Some(attributes), .. })
            | Self::SetAttributes(keys, attributes) => Cow::Owned(with_attributes(keys, attributes)),
            Self::InsertAuto(vectors, attributes) => {
                let mut argument = (vectors.len() as u64).to_le_bytes().to_vec();
                argument.extend(attributes.iter().flat_map(|attributes| attributes.encode()));
                Cow::Owned(argument)
            }
            Self::Quantize(quantization) => Cow::Owned(quantization.to_string().into_bytes()),
            Self::Tune(encoded) => Cow::Borrowed(encoded),
            Self::Consolidate | Self::Compact | Self::DropCodes | Self::DropVectors => Cow::Borrowed(&[]),
        }
    }

    /// The vectors of an insert.
    pub(super) fn vectors(&self) -> Option<Vectors<'_>> {
        match self {
            Self::Insert(NewVectors { vectors, .. }) | Self::InsertAuto(vectors, _) => Some(*vectors),
            _ => None,
        }
    }

    /// Whether making the change takes long before anything of it is visible, and has a [commit
    /// point](jasper_vamana::ChangeHooks::commit_point) then.
    pub(super) fn has_commit_point(&self) -> bool {
        matches!(self, Self::Insert(..) | Self::InsertAuto(..) | Self::Consolidate)
    }

    /// Bytes that the journal stores.
    pub(super) fn bytes(&self) -> u64 {
        let bytes_of = |vectors: Vectors<'_>| vectors.len() * vectors.dimension() * vectors.element().size();
        let rows = self.vectors().map_or(0, bytes_of);
        (self.argument().len() + rows) as u64
    }

    /// The change under its number, without its vectors.
    pub(super) fn to_stored(&self, number: u64) -> StoredChange {
        StoredChange {
            number,
            kind: self.kind(),
            argument: self.argument().into_owned(),
            vectors: Vec::new(),
        }
    }
}

/// Keys, and a row of attributes for each, as bytes.
fn with_attributes(keys: &[Key], attributes: &Frame) -> Vec<u8> {
    let mut bytes = (keys.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(bytemuck::cast_slice(keys));
    bytes.extend(attributes.encode());
    bytes
}

/// What [`with_attributes`] encoded.
fn split_attributes(bytes: &[u8]) -> Option<(Vec<Key>, Frame)> {
    let (len, rest) = bytes.split_first_chunk()?;
    let key_bytes = usize::try_from(u64::from_le_bytes(*len)).ok()?.checked_mul(size_of::<Key>())?;
    let (keys, attributes) = rest.split_at_checked(key_bytes)?;
    Some((bytemuck::pod_collect_to_vec(keys), Frame::decode(attributes).ok()?))
}

/// Calls `write` with each chunk of vectors and the number of its first.
pub(super) fn for_each_chunk(
    vectors: Vectors<'_>,
    mut write: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let written = with_element!(vectors.element(), T => vectors.with_source::<T, _>(|source| {
        let dimension = source.dimension();
        let rows = (CHUNK_BYTES / (dimension * size_of::<T>()).max(1)).max(1);
        let mut chunk = Vec::new();
        for first in (0..source.len()).step_by(rows) {
            let end = source.len().min(first + rows);
            chunk.resize((end - first) * dimension, T::default());
            source.read(first..end, &mut chunk)?;
            write(first as u64, bytemuck::cast_slice(&chunk))?;
        }
        Ok(())
    }));
    written.map_err(io::Error::other)?
}

/// Makes a change of the log. Returns the bytes that it takes there.
pub(super) fn replay(index: &IndexInner, log: &Log, number: u64) -> Result<u64, UpdateError> {
    let (kind, argument) = log.change(number).map_err(UpdateError::Journal)?;
    let keys = || -> Vec<Key> { bytemuck::pod_collect_to_vec(&argument) };
    let insert = |len, entries: InsertEntries<'_>| {
        let logged = log.vectors(number, len, index.dimension);
        index.changes.insert(Vectors::of_element(index.element, &logged), entries, &mut no_progress)
    };
    let invalid =
        || UpdateError::Journal(io::Error::new(io::ErrorKind::InvalidData, format!("an invalid {kind}")));
    let mut rows = 0;
    match &*kind {
        "insert" | "upsert" => {
            let keys = keys();
            rows = keys.len();
            let on_conflict = if kind == "insert" { OnConflict::Refuse } else { OnConflict::Replace };
            let keys = InsertKeys::Given(&keys, on_conflict);
            insert(rows, InsertEntries { keys, attributes: None })?;
        }
        "insert with attributes" | "upsert with attributes" => {
            let (keys, attributes) = split_attributes(&argument).ok_or_else(invalid)?;
            rows = keys.len();
            let is_insert = kind == "insert with attributes";
            let on_conflict = if is_insert { OnConflict::Refuse } else { OnConflict::Replace };
            let keys = InsertKeys::Given(&keys, on_conflict);
            insert(rows, InsertEntries { keys, attributes: Some(&attributes) })?;
        }
        "insert auto" => {
            let (len, encoded) = argument.split_first_chunk().ok_or_else(invalid)?;
            rows = u64::from_le_bytes(*len) as usize;
            let attributes = (!encoded.is_empty()).then(|| Frame::decode(encoded)).transpose();
            let attributes = attributes.map_err(|_| invalid())?;
            let entries = InsertEntries { keys: InsertKeys::Next, attributes: attributes.as_ref() };
            insert(rows, entries)?;
        }
        "set attributes" => {
            let (keys, attributes) = split_attributes(&argument).ok_or_else(invalid)?;
            index.changes.set_attributes(&keys, &attributes)?;
        }
        "delete" => drop(index.delete(DeleteKeys::All(&keys()))?),
        "undelete" => index.undelete(&keys())?,
        "consolidate" => drop(index.consolidate(&mut no_progress)?),
        "compact" => drop(index.compact(&mut no_progress)?),
        "quantize" => {
            let name = std::str::from_utf8(&argument).map_err(|_| invalid())?;
            let quantization = name.parse().map_err(|_| invalid())?;
            index.quantize_by(quantization, CodeCheck::Skip, &mut no_progress)?;
        }
        "drop codes" => index.drop_codes()?,
        "drop vectors" => index.drop_vectors()?,
        "tune" => {
            TunedSearch::decode(&argument).map_err(|_| invalid())?;
            index.backend.change(|graph| graph.set_encoded_tuned_searches(argument.clone()))?;
        }
        _ => return Err(invalid()),
    }
    Ok((argument.len() + rows * index.dimension * index.element.size()) as u64)
}
