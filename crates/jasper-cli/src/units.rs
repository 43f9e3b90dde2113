//! Numbers and units for people.

use std::fmt::Display;

use jasper::SaveStats;

/// `1234567` as `1,234,567`.
pub fn count(number: usize) -> String {
    match number / 1000 {
        0 => number.to_string(),
        thousands => format!("{},{:03}", count(thousands), number % 1000),
    }
}

/// A count and what is counted: `1 key`, `1,234 keys`.
pub fn counted(number: usize, name: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {name}{plural}", count(number))
}

/// Bytes in the largest decimal unit that leaves a number of at least 1: `41.9 MB`.
pub fn bytes(bytes: u64) -> String {
    let mut size = bytes as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 999.5 {
            let decimals = usize::from(unit != "B" && size < 99.95);
            return format!("{size:.decimals$} {unit}");
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

/// What a save did: `saved    x.jasper, 2.4 GB`, or `saved    x.jasper, 2.4 GB, of which 400 MB written`. Without a save,
/// the change is in a journal.
pub fn saved(output: impl Display, saved: Option<SaveStats>) -> String {
    let Some(saved) = saved else { return format!("logged   in the journal of {output}") };
    match bytes(saved.bytes) {
        size if saved.written < saved.bytes => {
            format!("saved    {output}, {size}, of which {} written", bytes(saved.written))
        }
        size => format!("saved    {output}, {size}"),
    }
}

/// A rate rounded to whole units, as [`count`].
pub fn rate(units: f64) -> String {
    count(units.round() as usize)
}

/// Seconds with three significant digits: `0.042 s`, `3.21 s`, `128 s`.
pub fn seconds(seconds: f64) -> String {
    let decimals = if seconds < 1.0 {
        3
    } else if seconds < 10.0 {
        2
    } else if seconds < 100.0 {
        1
    } else {
        0
    };
    format!("{seconds:.decimals$} s")
}

/// The f64 with the same decimal digits as an f32, for JSON: 1.2, not 1.2000000476837158.
pub fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::NAN)
}

/// `text` in at most `width` characters. If it is longer, it ends with an ellipsis.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 1, 1000].map(|number| counted(number, "key")), ["0 keys", "1 key", "1,000 keys"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [12, 41_900_000, 999_600, 999_400, 5_000_000_000_000].map(bytes),
            ["12 B", "41.9 MB", "1.0 MB", "999 kB", "5.0 TB"]
        );
        assert_eq!([0.0421, 3.214, 12.06, 128.2].map(seconds), ["0.042 s", "3.21 s", "12.1 s", "128 s"]);
        assert_eq!([cut("storm", 5), cut("stormy", 5), cut("a bcd", 3)], ["storm", "stor…", "a…"]);
    }
}
