//! Messages with another form in JSON: times and quantities are strings, a value of any type is
//! JSON in protobuf.
//!
//! Repeated fields of these messages are not merged: as in Go, the last value wins.

use jiff::fmt::temporal::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::error::{Error, Reason};
use crate::source::Source;
use crate::table::{Form, Message};
use crate::tidy::check;
use crate::wire::Reader;

/// The seconds of the start of year 1, which is Go's zero time.
pub(crate) const ZERO_SECONDS: i64 = -62_135_596_800;

/// The nanoseconds in a microsecond.
const MICRO: i64 = 1_000;

/// A number or a string.
pub(crate) enum IntOrString<'de, 's> {
    Int(i32),
    Text(Source<'de, 's>),
}

/// Calls `number` for the numbers of a message, and `bytes` for its strings.
fn fields<'de: 's, 's>(
    message: &Message,
    source: Source<'de, 's>,
    mut each: impl FnMut(u32, u64, Source<'de, 's>),
) -> Result<(), Error> {
    let mut reader = Reader::new(source.bytes());
    while !reader.is_empty() {
        let tag = reader.tag(message.name)?;
        let Some(field) = message.field(tag.number) else {
            reader.skip(tag)?;
            continue;
        };
        check(field, tag)?;
        if tag.wire_type == 2 {
            let content = reader.bytes()?;
            each(tag.number, 0, source.before(reader.left(), content.len()));
        } else {
            each(tag.number, reader.varint()?, Source::EMPTY);
        }
    }
    Ok(())
}

/// Returns the seconds and microseconds of a time, or `None` for Go's zero time, which is null in
/// JSON.
pub(crate) fn moment(message: &Message, bytes: &[u8]) -> Result<Option<(i64, i64)>, Error> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (mut seconds, mut nanos) = (0, 0);
    #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off in the same way")]
    fields(message, Source::Copy(bytes), |number, value, _| match number {
        1 => seconds = value.cast_signed(),
        _ => nanos = i64::from(value as i32),
    })?;
    let micros = if message.form == Form::MicroTime { nanos / MICRO } else { 0 };
    Ok(Some((seconds, micros)).filter(|moment| *moment != (ZERO_SECONDS, 0)))
}

/// Returns the text of a time, or `None` for Go's zero time.
pub(crate) fn time(message: &Message, bytes: &[u8]) -> Result<Option<String>, Error> {
    let Some((seconds, micros)) = moment(message, bytes)? else { return Ok(None) };
    let whole = Timestamp::from_second(seconds);
    let time = whole.and_then(|time| time.checked_add(SignedDuration::from_micros(micros)));
    let time = time
        .ok()
        .filter(|time| time.as_second() >= ZERO_SECONDS)
        .ok_or_else(|| Error::from(Reason::Time))?;
    let digits = if message.form == Form::MicroTime { 6 } else { 0 };
    let mut text = String::with_capacity("2026-01-01T00:00:00.000000Z".len());
    let printer = DateTimePrinter::new().precision(Some(digits));
    printer.print_timestamp(&time, &mut text).map_err(|_| Error::from(Reason::Time))?;
    Ok(Some(text))
}

/// Returns the text of a quantity, or `None` if it has none.
pub(crate) fn quantity<'de: 's, 's>(
    message: &Message,
    source: Source<'de, 's>,
) -> Result<Option<Source<'de, 's>>, Error> {
    let mut text = None;
    fields(message, source, |_, _, found| text = Some(found))?;
    Ok(text)
}

pub(crate) fn int_or_string<'de: 's, 's>(
    message: &Message,
    source: Source<'de, 's>,
) -> Result<IntOrString<'de, 's>, Error> {
    let (mut kind, mut number, mut text) = (0, 0, Source::EMPTY);
    fields(message, source, |field, value, found| match field {
        1 => kind = value.cast_signed(),
        2 => number = value,
        _ => text = found,
    })?;
    match kind {
        #[expect(clippy::cast_possible_truncation, reason = "Go cuts it off in the same way")]
        0 => Ok(IntOrString::Int(number as i32)),
        1 => Ok(IntOrString::Text(text)),
        _ => Err(Reason::IntOrString.into()),
    }
}

/// Parses the JSON text in a message.
pub(crate) fn raw(message: &Message, bytes: &[u8]) -> Result<Value, Error> {
    let mut text: &[u8] = &[];
    fields(message, Source::Copy(bytes), |_, _, found| text = found.bytes())?;
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let json = serde_json::from_slice(text);
    json.map_err(|error| Reason::Json { line: error.line(), column: error.column() }.into())
}
