//! String literals in the source of an expression: where they end, and their values.
//!
//! The parser of the `cel` crate does not know triple quotes, and reads raw strings in its own way.
//! So every literal that is not plain is replaced in the source by a placeholder character
//! ([`take_out`]).

use super::value::Val;

/// The first placeholder. Placeholders take two bytes, so that they fit into any literal.
const FIRST: u32 = 0x80;
/// The number of placeholders.
const COUNT: usize = 0x780;

/// Returns the end of the string or bytes literal that starts at this byte, if there is one.
pub(super) fn end(source: &str, start: usize) -> Option<usize> {
    let rest = source.get(start..)?;
    let prefix = rest.bytes().take(3).position(|byte| matches!(byte, b'\'' | b'"'))?;
    if !rest[..prefix].chars().all(|c| matches!(c, 'r' | 'R' | 'b' | 'B')) {
        return None;
    }
    let before = source[..start].chars().next_back();
    if prefix > 0 && before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let is_raw = rest[..prefix].contains(['r', 'R']);
    let quote = quote(&rest[prefix..]);
    let mut at = prefix + quote.len();
    while at < rest.len() {
        if rest[at..].starts_with(quote) {
            return Some(start + at + quote.len());
        }
        let c = rest[at..].chars().next()?;
        at += c.len_utf8();
        if c == '\\' && !is_raw {
            at += rest[at..].chars().next().map_or(0, char::len_utf8);
        }
    }
    Some(source.len())
}

/// Whether this word is at this byte, and not part of a longer one.
pub(super) fn is_word(source: &str, at: usize, word: &str) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let bytes = source.as_bytes();
    bytes[at..].starts_with(word.as_bytes())
        && !is_part(at.checked_sub(1).and_then(|before| bytes.get(before)))
        && !is_part(bytes.get(at + word.len()))
}

fn quote(text: &str) -> &str {
    &text[..if text.starts_with("'''") || text.starts_with("\"\"\"") { 3 } else { 1 }]
}

/// Returns a replacement of the same length for a literal that the parser does not understand, and
/// adds its value to `taken`. Malformed literals are left in the source.
pub(super) fn take_out(literal: &str, taken: &mut Vec<Val>) -> Option<String> {
    let is_plain = literal.is_ascii()
        && !literal.contains('\\')
        && !literal.starts_with(['r', 'R'])
        && !literal[1..].starts_with(['r', 'R'])
        && quote(literal.trim_start_matches(['b', 'B'])).len() == 1;
    if is_plain || taken.len() == COUNT {
        return None;
    }
    let value = decode(literal)?;
    let prefix = if matches!(value, Val::Bytes(_)) { "b" } else { "" };
    let mark = if value.size() == 0 {
        String::new()
    } else {
        let index = u32::try_from(taken.len()).ok()?;
        taken.push(value);
        char::from_u32(FIRST + index)?.to_string()
    };
    let mut out = format!("{prefix}'{mark}'");
    let rest = literal.len().checked_sub(out.len())?;
    out.push_str(&" ".repeat(rest));
    Some(out)
}

/// Returns the value of a literal that is a placeholder.
pub(super) fn put_back<'a>(literal: &str, taken: &'a [Val]) -> Option<&'a Val> {
    let mut chars = literal.chars();
    let (mark, None) = (chars.next()?, chars.next()) else { return None };
    taken.get(usize::try_from(u32::from(mark).checked_sub(FIRST)?).ok()?)
}

/// Returns the value of a literal, if it is well-formed.
fn decode(literal: &str) -> Option<Val> {
    let body = literal.trim_start_matches(['r', 'R', 'b', 'B']);
    let prefix = &literal[..literal.len() - body.len()];
    let quote = quote(body);
    let inner = body.strip_prefix(quote)?.strip_suffix(quote)?;
    let is_bytes = prefix.contains(['b', 'B']);
    let bytes = if prefix.contains(['r', 'R']) {
        inner.as_bytes().to_vec()
    } else {
        unescape(inner, is_bytes)?
    };
    if is_bytes {
        return Some(Val::Bytes(bytes.into()));
    }
    String::from_utf8(bytes).ok().map(|text| Val::text(&text))
}

fn unescape(text: &str, is_bytes: bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let kind = rest.chars().next()?;
        rest = &rest[kind.len_utf8()..];
        let (digits, radix) = match kind {
            'x' | 'X' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            '0'..='3' => (3, 8),
            other => {
                out.push(simple(other)?);
                continue;
            }
        };
        let number = if radix == 8 {
            let number = format!("{kind}{}", rest.get(..2)?);
            rest = &rest[2..];
            number
        } else {
            let number = rest.get(..digits)?.to_owned();
            rest = &rest[digits..];
            number
        };
        let code = u32::from_str_radix(&number, radix).ok()?;
        if is_bytes && digits < 4 {
            out.push(u8::try_from(code).ok()?);
        } else {
            push(&mut out, char::from_u32(code)?);
        }
    }
    Some(out)
}

fn simple(escaped: char) -> Option<u8> {
    Some(match escaped {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '?' | '"' | '\'' | '`' => u8::try_from(escaped).ok()?,
        _ => return None,
    })
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_ends_at_its_quote() {
        for (source, length) in [
            ("'a' + b", 3),
            (r"'a\'b' ", 6),
            ("\"it's\" ", 6),
            (r"r'\' ", 4),
            ("'''a'b''' ", 9),
            ("b'a' ", 4),
            ("'open", 5),
        ] {
            assert_eq!(end(source, 0), Some(length), "{source}");
        }
        assert_eq!(end("a + 'b'", 0), None);
        assert_eq!(end("xb'a'", 1), None);
    }

    #[test]
    fn literal_that_is_not_plain_becomes_a_placeholder() {
        let mut taken = Vec::new();
        assert_eq!(take_out("'plain'", &mut taken), None);
        assert_eq!(take_out("b'plain'", &mut taken), None);
        assert_eq!(take_out(r"'\q'", &mut taken), None);
        for (literal, text) in [
            (r"'a\tb'", "a\tb"),
            (r"r'\d+'", r"\d+"),
            ("'''it's'''", "it's"),
            (r"'\u00e4\x41\101'", "äAA"),
            ("'ä'", "ä"),
        ] {
            let out = take_out(literal, &mut taken).expect("taken out");
            assert_eq!(out.len(), literal.len());
            let mark = out.trim().trim_matches('\'').to_owned();
            assert!(put_back(&mark, &taken).is_some_and(|value| value.equals(&Val::text(text))));
        }
        assert_eq!(take_out("r''", &mut taken).as_deref(), Some("'' "));
        let bytes = take_out(r"b'\xff'", &mut taken).expect("taken out");
        assert!(bytes.starts_with("b'"));
    }
}
