//! The sections `quantizer` and `codes`.

use std::sync::Arc;

use jasper_data::ReadAt;
use jasper_quant::{Quantizer, open};

use super::rule::Rule;
use super::small;
use super::table::{Section, Table};
use super::{FileFault, IndexInfo};

/// Reads the quantizer of a file, if it has one, and checks that it fits the vectors and the section `codes`.
pub(super) fn quantizer(
    source: &(impl ReadAt + ?Sized),
    table: &Table,
    info: &IndexInfo,
) -> Result<Option<Arc<dyn Quantizer>>, FileFault> {
    let (entry, codes) = match (table.find(Section::Quantizer), table.find(Section::Codes)) {
        (None, None) => return Ok(None),
        (Some(entry), Some(codes)) => (entry, codes),
        (Some(_), None) => return Err(FileFault::MissingSection(Section::Codes)),
        (None, Some(_)) => return Err(FileFault::MissingSection(Section::Quantizer)),
    };
    let invalid = |problem: String| FileFault::invalid(Section::Quantizer, problem);
    let quantizer = open(&small::read(source, entry)?).map_err(|error| invalid(error.to_string()))?;
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
pub(super) fn rule(quantizer: &dyn Quantizer) -> Rule {
    let layout = quantizer.layout();
    Rule::FiniteFactors { words: layout.words(), first: layout.factor_word() }
}
