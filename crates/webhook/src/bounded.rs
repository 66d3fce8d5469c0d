//! A deserializer that counts what the decoded types take.
//!
//! Every value counts as the size of the type that it is decoded into. An element of a list counts
//! twice more, as a list has up to twice the room that it needs, and the old room as long as it
//! grows. An entry of a map counts as a part of a node, of which the first takes a whole one.
//! Texts and the nodes of raw values count elsewhere, as a copy of the raw value.
//!
//! What serde buffers first, for `#[serde(flatten)]` and enums without a tag of their own, counts
//! as the buffer and not as the type that it becomes.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde_json::Value;

use crate::decode;
use crate::serve::body::Shortage;
use crate::serve::memory::Memory;

/// What an element of a list takes beside itself.
const ELEMENT: usize = 2;

/// The elements that the first node of a map has room for.
const NODE: usize = 11;

/// What an entry of a map takes at most after the first one.
const ENTRY: usize = 3;

/// Why a value was not decoded. The message shows no content.
#[derive(Debug)]
pub(crate) enum DecodeError {
    Memory(Shortage),
    Invalid(String),
}

/// Decodes a value, as long as there is memory for it.
pub(crate) fn decode<K: DeserializeOwned>(
    value: &Value,
    memory: &mut Memory,
) -> Result<K, DecodeError> {
    let meter = Meter { memory: RefCell::new(memory), shortage: Cell::new(None) };
    let decoded = K::deserialize(Bounded { inner: value, meter: &meter, times: 0 });
    decoded.map_err(|error| match meter.shortage.get() {
        Some(shortage) => DecodeError::Memory(shortage),
        None => DecodeError::Invalid(decode::problem(&error)),
    })
}

struct Meter<'a> {
    memory: RefCell<&'a mut Memory>,
    /// Why decoding ended.
    shortage: Cell<Option<Shortage>>,
}

impl Meter<'_> {
    fn take<T, E: Error>(&self, times: usize) -> Result<(), E> {
        self.memory.borrow_mut().take(times * size_of::<T>()).map_err(|shortage| {
            self.shortage.set(Some(shortage));
            E::custom(shortage)
        })
    }
}

/// Anything of serde, with a meter.
struct Bounded<'a, T> {
    inner: T,
    meter: &'a Meter<'a>,
    /// How often a seed, or an entry of what a visitor visits, counts beside itself.
    times: usize,
}

impl<'a, T> Bounded<'a, T> {
    fn with<U>(&self, inner: U, times: usize) -> Bounded<'a, U> {
        Bounded { inner, meter: self.meter, times }
    }
}

macro_rules! deserialize {
    ($($method:ident($($name:ident: $type:ty),*) $times:expr;)*) => {$(
        fn $method<V: Visitor<'de>>(
            self,
            $($name: $type,)*
            visitor: V,
        ) -> Result<V::Value, Self::Error> {
            self.meter.take::<V::Value, _>(1)?;
            let visitor = self.with(visitor, $times);
            self.inner.$method($($name,)* visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any() 0;
        deserialize_bool() 0;
        deserialize_i8() 0;
        deserialize_i16() 0;
        deserialize_i32() 0;
        deserialize_i64() 0;
        deserialize_i128() 0;
        deserialize_u8() 0;
        deserialize_u16() 0;
        deserialize_u32() 0;
        deserialize_u64() 0;
        deserialize_u128() 0;
        deserialize_f32() 0;
        deserialize_f64() 0;
        deserialize_char() 0;
        deserialize_str() 0;
        deserialize_string() 0;
        deserialize_bytes() 0;
        deserialize_byte_buf() 0;
        deserialize_option() 0;
        deserialize_unit() 0;
        deserialize_unit_struct(name: &'static str) 0;
        deserialize_newtype_struct(name: &'static str) 0;
        deserialize_seq() 0;
        deserialize_tuple(len: usize) 0;
        deserialize_tuple_struct(name: &'static str, len: usize) 0;
        deserialize_map() NODE;
        deserialize_struct(name: &'static str, fields: &'static [&'static str]) 0;
        deserialize_enum(name: &'static str, variants: &'static [&'static str]) 0;
        deserialize_identifier() 0;
        deserialize_ignored_any() 0;
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
    }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.with(inner, 0);
        self.inner.visit_some(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.with(inner, 0);
        self.inner.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let inner = self.with(inner, ELEMENT);
        self.inner.visit_seq(inner)
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let inner = self.with(inner, self.times);
        self.inner.visit_map(inner)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let inner = self.with(inner, 0);
        self.inner.visit_enum(inner)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.meter.take::<S::Value, _>(self.times)?;
        let inner = self.with(inner, 0);
        self.inner.deserialize(inner)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.with(seed, self.times);
        self.inner.next_element_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let seed = self.with(seed, self.times);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.with(seed, self.times);
        self.times = self.times.min(ENTRY);
        self.inner.next_value_seed(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'a, A> {
    type Error = A::Error;
    type Variant = Bounded<'a, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), A::Error> {
        let Self { inner, meter, times } = self;
        let (value, inner) = inner.variant_seed(Bounded { inner: seed, meter, times })?;
        Ok((value, Bounded { inner, meter, times }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        let seed = self.with(seed, 0);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor, 0);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor, 0);
        self.inner.struct_variant(fields, visitor)
    }
}
