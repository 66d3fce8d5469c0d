//! Quantities such as `500m`, `1.5Gi` or `1e3`: only parsed and compared.

use serde_json::Value;

/// The number of parts in one unit: quantities are counted in billionths, the finest that the real
/// server keeps.
const PARTS: i128 = 1_000_000_000;

/// An exact quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::kinds) struct Quantity(i128);

impl Quantity {
    /// Parses a string or a number. Returns `None` if it is no quantity, or too large.
    pub(in crate::kinds) fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse_text(text),
            Value::Number(number) => Self::parse_text(&number.to_string()),
            _ => None,
        }
    }

    /// Whether the quantity is greater than zero.
    pub(in crate::kinds) fn is_positive(self) -> bool {
        self.0 > 0
    }

    fn parse_text(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let (up, down) = scale(suffix)?;
        let down = down.checked_mul(10_i128.checked_pow(u32::try_from(fraction.len()).ok()?)?)?;
        let amount = digits.checked_mul(up)?.checked_mul(PARTS)?;
        // Anything finer than a billionth is rounded up.
        let amount = amount.checked_add(down - 1)? / down;
        Some(Self(if negative { -amount } else { amount }))
    }
}

/// Returns the factor and the divisor of a suffix.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power| Some((1024_i128.pow(power), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "k" => Some((1_000, 1)),
        "M" => Some((1_000_000, 1)),
        "G" => Some((1_000_000_000, 1)),
        "T" => Some((1_000_000_000_000, 1)),
        "P" => Some((1_000_000_000_000_000, 1)),
        "E" => Some((1_000_000_000_000_000_000, 1)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, power) } else { (power, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_equal_however_they_are_spelled() {
        for (one, other) in [
            (json!("1000m"), json!("1")),
            (json!("1024Mi"), json!("1Gi")),
            (json!("1.5"), json!("1500m")),
            (json!("1e3"), json!("1k")),
            (json!(2), json!("2")),
            (json!(0.5), json!("500m")),
            (json!("-1"), json!("-1000m")),
        ] {
            assert_eq!(Quantity::parse(&one), Quantity::parse(&other), "{one} and {other}");
            assert!(Quantity::parse(&one).is_some(), "{one}");
        }
    }

    #[test]
    fn invalid_quantities_are_none() {
        for text in [
            "",
            "x",
            ".",
            "1..2",
            "1.2.3",
            "1x",
            "1e",
            "1e999",
            "99999999999999999999999999999999999999999",
        ] {
            assert_eq!(Quantity::parse(&json!(text)), None, "{text}");
        }
    }
}
