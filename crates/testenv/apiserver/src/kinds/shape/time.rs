//! Parsing of times, with Go's errors for malformed ones.
//!
//! Go parses a time with a layout, an example of the same form. Its error says at which part of the
//! layout parsing failed.

use std::fmt::Write as _;

/// The layout of most times. Any number of fractional digits may follow the seconds.
pub(super) const SECONDS: &str = "2006-01-02T15:04:05Z07:00";

/// The layout of times with microseconds, with six fractional digits.
pub(super) const MICROSECONDS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The common start of all layouts. `15` is the hour, the only part that may have a single digit.
const PARTS: [&str; 11] = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];

/// Checks that a string matches the layout. The error is Go's.
pub(super) fn check(text: &str, layout: &str) -> Result<(), String> {
    let mut reader = Reader { text, rest: text.as_bytes(), layout };
    let mut numbers = [0; 11];
    for (part, number) in PARTS.into_iter().zip(&mut numbers) {
        *number = reader.part(part)?;
    }
    reader.fraction()?;
    reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(reader.failed(&format!("extra text: {}", quoted(reader.rest))));
    }
    let [year, _, month, _, day, ..] = numbers;
    if day == 0 || day > days(year, month) {
        return Err(reader.failed("day out of range"));
    }
    Ok(())
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a [u8],
    layout: &'a str,
}

impl Reader<'_> {
    /// Parses one part of the layout: a literal, or a number of at most its length.
    fn part(&mut self, part: &str) -> Result<u32, String> {
        let most = part.len();
        let length = self.rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        let is_number = part.starts_with(|c: char| c.is_ascii_digit());
        if !is_number {
            return match self.rest.strip_prefix(part.as_bytes()) {
                Some(rest) => {
                    self.rest = rest;
                    Ok(0)
                }
                None => Err(self.unread(part)),
            };
        }
        if length < most && !(part == "15" && length == 1) {
            return Err(self.unread(part));
        }
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        let number = number(digits);
        let (name, range) = match part {
            "01" => ("month", 1..13),
            "15" => ("hour", 0..24),
            "04" => ("minute", 0..60),
            "05" => ("second", 0..60),
            _ => return Ok(number),
        };
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(self.failed(&format!("{name} out of range")))
        }
    }

    /// Parses the fractional seconds.
    fn fraction(&mut self) -> Result<(), String> {
        let has_point = matches!(self.rest.first(), Some(b'.' | b','));
        let digits = self.rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
        if self.layout == MICROSECONDS {
            if !has_point || digits < 6 {
                return Err(self.unread(".000000"));
            }
            self.rest = &self.rest[7..];
        } else if has_point && digits > 0 {
            self.rest = &self.rest[1 + digits..];
        }
        Ok(())
    }

    /// Parses `Z`, or an offset such as `+02:00`.
    fn zone(&mut self) -> Result<(), String> {
        match self.rest {
            [b'Z', rest @ ..] => self.rest = rest,
            [b'+' | b'-', hour @ ..] if hour.len() >= 5 => {
                let (hours, minutes) = (&hour[..2], &hour[3..5]);
                let are_digits = hours.iter().chain(minutes).all(u8::is_ascii_digit);
                if hour[2] != b':' || !are_digits {
                    return Err(self.unread("Z07:00"));
                }
                // Go's limits are this loose.
                if number(hours) > 24 {
                    return Err(self.failed("time zone offset hour out of range"));
                }
                if number(minutes) > 60 {
                    return Err(self.failed("time zone offset minute out of range"));
                }
                self.rest = &hour[5..];
            }
            _ => return Err(self.unread("Z07:00")),
        }
        Ok(())
    }

    fn unread(&self, part: &str) -> String {
        let (text, rest) = (quoted(self.text.as_bytes()), quoted(self.rest));
        format!("parsing time {text} as \"{}\": cannot parse {rest} as \"{part}\"", self.layout)
    }

    fn failed(&self, why: &str) -> String {
        format!("parsing time {}: {why}", quoted(self.text.as_bytes()))
    }
}

fn number(digits: &[u8]) -> u32 {
    digits.iter().fold(0, |number, digit| number * 10 + u32::from(digit - b'0'))
}

fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Quotes a string as Go's time errors do: bytes that are not printable ASCII are escaped.
fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend(['\\', char::from(byte)]),
            b' '..=0x7f => text.push(char::from(byte)),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_accepted_in_every_form_that_go_accepts() {
        for text in [
            "2026-01-01T00:00:00Z",
            "2024-02-29T23:59:59.999999999+05:30",
            "2026-01-01T0:00:00-08:00",
            "2026-01-01T00:00:00,5Z",
        ] {
            assert_eq!(check(text, SECONDS), Ok(()), "{text}");
        }
        assert_eq!(check("2026-01-01T00:00:00.123456Z", MICROSECONDS), Ok(()));
    }

    #[test]
    fn days_of_february_depend_on_the_year() {
        assert_eq!(days(2024, 2), 29);
        assert_eq!(days(1900, 2), 28);
        assert_eq!(days(2000, 2), 29);
    }
}
