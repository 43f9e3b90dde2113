//! Names and keyword arguments that choose how an index is built, and where it is.

use jasper::{Device, IndexBuilder, MemorySpace, Quantization, QuantizeMode};
use jasper_vamana::PoolError;
use pyo3::prelude::*;

use crate::errors::{Integer, ParameterError, count, parse, seed as seed_of};

/// A builder with the parameters that are given.
pub fn builder<'a>(
    metric: &str,
    max_degree: Option<Integer>,
    build_beam_width: Option<Integer>,
    alpha: Option<f32>,
    max_batch_share: Option<f32>,
    seed: Option<Integer>,
    threads: Option<Integer>,
) -> PyResult<IndexBuilder<'a>> {
    let mut builder = IndexBuilder::new(parse(metric)?).threads(self::threads(threads)?);
    if let Some(max_degree) = max_degree {
        builder = builder.max_degree(count("max_degree", max_degree)?);
    }
    if let Some(build_beam_width) = build_beam_width {
        builder = builder.build_beam_width(count("build_beam_width", build_beam_width)?);
    }
    if let Some(alpha) = alpha {
        builder = builder.alpha(alpha);
    }
    if let Some(share) = max_batch_share {
        builder = builder.max_batch_share(share);
    }
    Ok(match seed {
        Some(seed) => builder.seed(seed_of("seed", seed)?),
        None => builder,
    })
}

/// The argument `threads`.
pub fn threads(threads: Option<Integer>) -> PyResult<Option<usize>> {
    let threads = threads.map(|threads| count("threads", threads)).transpose()?;
    if threads == Some(0) {
        return Err(ParameterError::new_err(PoolError::Zero.to_string()));
    }
    Ok(threads)
}

/// The argument `device`: a name such as "cuda:0,1", or a list of names.
#[derive(Clone, Copy)]
pub struct DeviceArgument(pub Device);

impl<'py> FromPyObject<'_, 'py> for DeviceArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let names: Vec<String> = match object.extract::<String>() {
            Ok(name) => return parse(&name).map(Self),
            Err(_) => object.extract()?,
        };
        let numbers: Option<Vec<_>> = names.iter().map(|name| name.strip_prefix("cuda:")).collect();
        let numbers = numbers.ok_or_else(|| {
            ParameterError::new_err(format!(
                "a list of devices ({}) must be of GPUs such as cuda:0; name one device that is not",
                names.join(", ")
            ))
        })?;
        parse(&format!("cuda:{}", numbers.join(","))).map(Self)
    }
}

/// The arguments `device`, `vector_storage` and `sharded`.
pub fn placed_device(
    DeviceArgument(device): DeviceArgument,
    vector_storage: Option<&str>,
    sharded: bool,
) -> PyResult<Device> {
    let storage = vector_storage.map(parse::<MemorySpace>).transpose()?;
    Ok(device.vector_storage(storage).sharded(sharded))
}

/// The arguments `quantization` and `force`. `device` is that of an automatic choice.
pub fn quantize_mode(quantization: Option<&str>, device: Device, force: bool) -> PyResult<QuantizeMode> {
    Ok(match quantization {
        None => QuantizeMode::None,
        Some("auto") => QuantizeMode::Auto(device),
        Some("sketches") => QuantizeMode::Sketches,
        Some(name) if force => QuantizeMode::Forced(parse::<Quantization>(name)?),
        Some(name) => QuantizeMode::Checked(parse::<Quantization>(name)?),
    })
}
