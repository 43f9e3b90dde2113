//! Finds the smallest sufficient beam width.

/// Returns the smallest width from `first` to `widest` that `reaches`, which is true from some width on; `None` if
/// `widest` does not.
///
/// Widens by half until a width reaches, then bisects.
pub(crate) fn least_width<E>(
    first: usize,
    widest: usize,
    mut reaches: impl FnMut(usize) -> Result<bool, E>,
) -> Result<Option<usize>, E> {
    // No width below `low` reaches.
    let (mut low, mut width) = (first, first.min(widest));
    while !reaches(width)? {
        if width == widest {
            return Ok(None);
        }
        low = width + 1;
        width = (width + width.div_ceil(2)).min(widest);
    }
    let mut high = width;
    while low < high {
        let middle = low.midpoint(high);
        if reaches(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Some(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_found_wherever_it_is() {
        for first in [1, 10, 64] {
            for least in 0..300 {
                let mut asked = 0;
                let found = least_width(first, 200, |width| {
                    assert!((first..=200).contains(&width), "{width}");
                    asked += 1;
                    Ok::<_, ()>(width >= least)
                });
                let expected = (least <= 200).then_some(least.max(first));
                assert_eq!(found, Ok(expected), "from {first}");
                assert!(asked <= 24, "{asked} questions for {least} from {first}");
            }
        }
        assert_eq!(least_width(5, 9, |_| Err("stopped")), Err("stopped"));
    }
}
