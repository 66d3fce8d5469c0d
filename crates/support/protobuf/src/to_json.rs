//! Writes the JSON of a message, as Go would, without a value in between.

use std::fmt;
use std::io::Write as _;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};

use crate::de::Deserializer;
use crate::error::Error;

/// Returns the JSON of a message of a built-in kind, with its `kind` and `apiVersion`.
///
/// It is the JSON that Go writes, up to the order of fields: what is empty is left out or there as
/// it is in Go.
///
/// # Errors
/// Returns an error if the bytes are no such message, or if it has a field that the table lacks.
pub fn to_json(api_version: &str, kind: &str, raw: &[u8]) -> Result<Vec<u8>, Error> {
    let deserializer = Deserializer::new(api_version, kind, raw)?;
    // Names of fields are longer in JSON than in protobuf.
    let mut out = Vec::with_capacity(raw.len());
    Json(&mut out).deserialize(deserializer)?;
    Ok(out)
}

/// Writes one value.
struct Json<'a>(&'a mut Vec<u8>);

impl Json<'_> {
    fn shown<E: serde::de::Error>(self, value: impl fmt::Display) -> Result<(), E> {
        write!(self.0, "{value}").map_err(E::custom)
    }
}

impl<'de> DeserializeSeed<'de> for Json<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Json<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.shown("null")
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.shown(value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.shown(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.shown(value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        serde_json::to_writer(self.0, &value).map_err(E::custom)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        serde_json::to_writer(self.0, value).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        self.0.push(b'[');
        let start = self.0.len();
        loop {
            let end = self.0.len();
            if end > start {
                self.0.push(b',');
            }
            if items.next_element_seed(Json(self.0))?.is_none() {
                self.0.truncate(end);
                self.0.push(b']');
                return Ok(());
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        self.0.push(b'{');
        let start = self.0.len();
        loop {
            let end = self.0.len();
            if end > start {
                self.0.push(b',');
            }
            if members.next_key_seed(Json(self.0))?.is_none() {
                self.0.truncate(end);
                self.0.push(b'}');
                return Ok(());
            }
            self.0.push(b':');
            members.next_value_seed(Json(self.0))?;
        }
    }
}
