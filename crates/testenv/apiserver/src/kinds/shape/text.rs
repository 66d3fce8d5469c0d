//! Strings that encode other values: bytes and quantities.

use serde_json::Value;

const FORMAT: &str = "quantities must match the regular expression \
                      '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const SUFFIX: &str = "unable to parse quantity's suffix";

/// Checks that a string is padded base64. The error names the same byte as Go's decoder.
pub(super) fn check_base64(text: &str) -> Result<(), String> {
    match corrupt_at(text.as_bytes()) {
        None => Ok(()),
        Some(at) => Err(format!("illegal base64 data at input byte {at}")),
    }
}

/// Returns the index at which a string stops being base64. Line breaks are ignored.
fn corrupt_at(bytes: &[u8]) -> Option<usize> {
    let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
    // The index of the next byte that is not a line break.
    let next = |from: usize| (from..bytes.len()).find(|&at| !is_break(&bytes[at]));
    let (mut at, mut digits) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\r' | b'\n' => {}
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' => digits = (digits + 1) % 4,
            // Nothing but line breaks may follow the padding.
            b'=' if digits == 3 => return next(at + 1),
            b'=' if digits == 2 => {
                return match next(at + 1) {
                    None => Some(bytes.len()),
                    Some(second) if bytes[second] == b'=' => next(second + 1),
                    // Go names the index before the byte that should have been padding.
                    Some(other) => Some(other - 1),
                };
            }
            _ => return Some(at),
        }
        at += 1;
    }
    (digits > 0).then(|| bytes.len() - digits)
}

/// Checks that a value is a quantity: a string or a number.
pub(super) fn check_quantity(value: &Value) -> Result<(), String> {
    let outcome = match value {
        Value::String(text) => check_quantity_text(text.trim()),
        Value::Number(number) => check_quantity_text(&number.to_string()),
        _ => Err(FORMAT),
    };
    outcome.map_err(str::to_owned)
}

fn check_quantity_text(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err(FORMAT);
    }
    let digits =
        |text: &'_ str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut suffix = &number[digits(number)..];
    if let Some(fraction) = suffix.strip_prefix('.') {
        suffix = &fraction[digits(fraction)..];
    }
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let power = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits(power) < power.len() {
        return Err(FORMAT);
    }
    let is_known = matches!(
        suffix,
        "" | "n"
            | "u"
            | "m"
            | "k"
            | "M"
            | "G"
            | "T"
            | "P"
            | "E"
            | "Ki"
            | "Mi"
            | "Gi"
            | "Ti"
            | "Pi"
            | "Ei"
    );
    let is_power =
        suffix.strip_prefix(['e', 'E']).is_some_and(|power| power.parse::<i64>().is_ok());
    if is_known || is_power { Ok(()) } else { Err(SUFFIX) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn quantities_are_numbers_with_a_known_suffix() {
        for value in [
            json!("1"),
            json!("1.5Gi"),
            json!("-2e-3"),
            json!("1E"),
            json!(" 1 "),
            json!(2),
            json!(0.5),
        ] {
            assert_eq!(check_quantity(&value), Ok(()), "{value}");
        }
        for value in [json!(""), json!("x"), json!("1x"), json!("1.2.3"), json!(true), json!({})] {
            assert_eq!(check_quantity(&value), Err(FORMAT.to_owned()), "{value}");
        }
        for value in [json!("1KK"), json!("1e"), json!("1e+"), json!("1m5")] {
            assert_eq!(check_quantity(&value), Err(SUFFIX.to_owned()), "{value}");
        }
    }

    #[test]
    fn base64_is_whole_groups_with_breaks_wherever_they_are() {
        for text in ["", "aGk=", "YQ==", "aG\nk=\r\n", "Y\nQ\n=\n=\n"] {
            assert_eq!(corrupt_at(text.as_bytes()), None, "{text:?}");
        }
    }
}
