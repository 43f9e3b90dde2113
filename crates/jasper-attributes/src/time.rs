//! Dates and times as text, in UTC.

const MICROS_PER_SECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Microseconds since 1970 of a date (`2024-03-01`), or of a date and a time of day
/// (`2024-03-01T12:00`, `2024-03-01 12:00:00.25+02:00`), which is UTC unless an offset follows.
pub(crate) fn parse(text: &str) -> Option<i64> {
    let mut rest = text;
    let sign = match rest.as_bytes().first()? {
        b'+' => Some(1),
        b'-' => Some(-1),
        _ => None,
    };
    rest = &rest[usize::from(sign.is_some())..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits != 4 && !(sign.is_some() && (4..=6).contains(&digits)) {
        return None;
    }
    let year = sign.unwrap_or(1) * number(&mut rest, digits)?;
    let month = number(skip(&mut rest, "-")?, 2)?;
    let day = number(skip(&mut rest, "-")?, 2)?;
    let days = days_since_1970(year, month, day)?;
    let (mut seconds, mut micros) = (0, 0);
    if !rest.is_empty() {
        rest = rest.strip_prefix(['T', 't', ' '])?;
        let hour = number(&mut rest, 2)?;
        let minute = number(skip(&mut rest, ":")?, 2)?;
        let second = if skip(&mut rest, ":").is_some() { number(&mut rest, 2)? } else { 0 };
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        if skip(&mut rest, ".").is_some() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if !(1..=9).contains(&digits) {
                return None;
            }
            micros = number(&mut rest, digits)? * 10_i64.pow(9 - digits as u32) / 1000;
        }
        seconds = hour * 3600 + minute * 60 + second - offset(rest)?;
    }
    let seconds = (days * SECONDS_PER_DAY).checked_add(seconds)?;
    seconds.checked_mul(MICROS_PER_SECOND)?.checked_add(micros)
}

/// Seconds that a local time is ahead of UTC.
fn offset(mut rest: &str) -> Option<i64> {
    let sign = match rest {
        "" | "Z" | "z" => return Some(0),
        _ if rest.starts_with('+') => 1,
        _ if rest.starts_with('-') => -1,
        _ => return None,
    };
    rest = &rest[1..];
    let hours = number(&mut rest, 2)?;
    let _ = skip(&mut rest, ":");
    let minutes = if rest.is_empty() { 0 } else { number(&mut rest, 2)? };
    (rest.is_empty() && hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn skip<'a, 'b>(rest: &'a mut &'b str, prefix: &str) -> Option<&'a mut &'b str> {
    *rest = rest.strip_prefix(prefix)?;
    Some(rest)
}

fn number(rest: &mut &str, digits: usize) -> Option<i64> {
    let text = rest.get(..digits).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    *rest = &rest[digits..];
    text.parse().ok()
}

/// The time as `parse` reads it, without a fraction if it is of whole seconds.
pub(crate) fn format(micros: i64) -> String {
    let seconds = micros.div_euclid(MICROS_PER_SECOND);
    let fraction = micros.rem_euclid(MICROS_PER_SECOND);
    let (year, month, day) = date(seconds.div_euclid(SECONDS_PER_DAY));
    let second = seconds.rem_euclid(SECONDS_PER_DAY);
    let year = match year {
        0..=9999 => format!("{year:04}"),
        _ => format!("{year:+05}"),
    };
    let fraction = match fraction {
        0 => String::new(),
        _ => format!(".{fraction:06}").trim_end_matches('0').to_string(),
    };
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

// A year starts in March here, so that a leap day is its last day. An era is 400 years.
const DAYS_PER_ERA: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

/// None for a date that does not exist.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) {
        return None;
    }
    let march_year = year - i64::from(month <= 2);
    let year_of_era = march_year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = march_year.div_euclid(400) * DAYS_PER_ERA + day_of_era - DAYS_TO_1970;
    (date(days) == (year, month, day)).then_some(days)
}

fn date(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_TO_1970;
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = days.div_euclid(DAYS_PER_ERA) * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day_of_year - (153 * march_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_times() {
        let noon = 1_709_294_400_000_000;
        for text in [
            "2024-03-01T12:00:00Z",
            "2024-03-01 12:00",
            "2024-03-01T14:00:00+02:00",
            "2024-03-01T09:30-0230",
            "2024-03-01t12:00:00.0000009z",
        ] {
            assert_eq!(parse(text), Some(noon), "{text}");
        }
        assert_eq!(format(noon), "2024-03-01T12:00:00Z");
        assert_eq!(format(noon + 250_000), "2024-03-01T12:00:00.25Z");
        assert_eq!(parse("2024-02-29"), parse("2024-02-28T24:00").or(Some(noon - 36 * 3_600_000_000)));
        assert_eq!((parse("1970-01-01"), parse("1969-12-31T23:59:59.5")), (Some(0), Some(-500_000)));
        assert_eq!(format(i64::MIN), "-290308-12-21T19:59:05.224192Z");
        for text in [
            "",
            "2024",
            "2024-3-1",
            "2023-02-29",
            "2024-13-01",
            "2024-00-10",
            "2024-01-00",
            "2024-03-01T",
            "2024-03-01T25:00",
            "2024-03-01T12:00:00X",
            "2024-03-01T12:00+25:00",
            "+999999-01-01",
            "20240-01-01",
            "٢٠٢٤-01-01",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn formatted_times_are_parsed(micros: i64, near in -4_000_000_000_000_000..4_000_000_000_000_000_i64) {
            prop_assert_eq!(parse(&format(near)), Some(near));
            if micros < i64::MIN + MICROS_PER_SECOND {
                return Ok(());
            }
            prop_assert_eq!(parse(&format(micros)), Some(micros));
        }

        #[test]
        fn any_text_is_parsed_or_not(text in "[-+0-9T:.Z ]{0,30}") {
            let _ = parse(&text);
        }
    }
}
