//! The messages in memory, parsed once from `messages.txt`.
//!
//! Invariant: kinds, messages and fields are sorted: kinds by version and kind, messages by name,
//! and fields by number.

use std::sync::LazyLock;

use super::special::Special;

/// The messages of the built-in kinds. Parsed with the first protobuf body, so that the server
/// starts fast.
pub(super) static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("messages.txt")));

/// All messages.
#[derive(Debug)]
pub(super) struct Table {
    /// Version and kind, such as `apps/v1` and `Deployment`, with the index of the message.
    kinds: Vec<((&'static str, &'static str), usize)>,
    messages: Vec<Message>,
}

/// A message: a Go struct.
#[derive(Debug)]
pub(super) struct Message {
    /// Its name, as in `core.v1.PodSpec`.
    name: &'static str,
    pub(super) fields: Vec<Field>,
    pub(super) form: Form,
}

/// The form of a message in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// An object.
    Struct,
    /// The list in its only field.
    List,
    /// Something else.
    Special(Special),
}

/// A field of a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) number: u32,
    /// Its name in Go, for errors.
    pub(super) go_name: &'static str,
    /// Its name in JSON. `None` if its own fields are inlined.
    pub(super) json: Option<&'static str>,
    pub(super) kind: Type,
    /// Whether Go holds a pointer, so that empty differs from absent.
    pub(super) pointer: bool,
    /// Whether JSON has the field even if it is empty.
    pub(super) always: bool,
}

/// The type of a field.
#[derive(Debug)]
pub(super) enum Type {
    String,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    List(Box<Type>),
    /// A map with string keys.
    Map(Box<Type>),
    Message(usize),
}

/// Kinds that are the same in all groups and versions, also in unknown ones.
const SHARED: [&str; 3] = ["DeleteOptions", "Status", "WatchEvent"];

impl Table {
    /// Returns the message of a kind.
    pub(super) fn kind(&self, version: &str, kind: &str) -> Option<&Message> {
        let version = if SHARED.contains(&kind) { "v1" } else { version };
        let found = self.kinds.binary_search_by(|(key, _)| key.cmp(&(version, kind))).ok()?;
        Some(self.get(self.kinds[found].1))
    }

    pub(super) fn get(&self, message: usize) -> &Message {
        &self.messages[message]
    }

    fn parse(text: &'static str) -> Self {
        let lines = || text.lines().filter(|line| !line.starts_with('#'));
        let starts_message = |line: &&str| !line.starts_with(' ') && !line.starts_with("kind ");
        let names: Vec<&str> = lines().filter(starts_message).map(|line| word(line, 0)).collect();
        let index = |name: &str| {
            names.binary_search(&name).expect("a message that the file names must be in it")
        };
        let mut table = Self { kinds: Vec::new(), messages: Vec::with_capacity(names.len()) };
        for line in lines() {
            if let Some(field) = line.strip_prefix(' ') {
                let owner = table.messages.last_mut().expect("fields must follow their message");
                owner.fields.push(Field::parse(field, &index));
            } else if let Some(kind) = line.strip_prefix("kind ") {
                table.kinds.push(((word(kind, 0), word(kind, 1)), index(word(kind, 2))));
            } else {
                let name = word(line, 0);
                let form = match Special::named(name) {
                    Some(special) => Form::Special(special),
                    None if line.ends_with(" list") => Form::List,
                    None => Form::Struct,
                };
                table.messages.push(Message { name, fields: Vec::new(), form });
            }
        }
        table
    }
}

impl Message {
    pub(super) fn field(&self, number: u32) -> Option<&Field> {
        let found = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&self.fields[found])
    }

    /// Returns the Go name without the package, such as `PodSpec`.
    pub(super) fn struct_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Field {
    fn parse(line: &'static str, index: &impl Fn(&str) -> usize) -> Self {
        let words: Vec<&str> = line.split(' ').skip(4).collect();
        Self {
            number: word(line, 0).parse().expect("a field must have a number"),
            go_name: word(line, 1),
            json: Some(word(line, 2)).filter(|name| *name != "."),
            kind: Type::parse(word(line, 3), index),
            pointer: words.contains(&"pointer"),
            always: words.contains(&"always"),
        }
    }
}

impl Type {
    fn parse(text: &str, index: &impl Fn(&str) -> usize) -> Self {
        if let Some(item) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::parse(item, index)));
        }
        if let Some(value) = text.strip_prefix("{}") {
            return Self::Map(Box::new(Self::parse(value, index)));
        }
        match text {
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "bool" => Self::Bool,
            "int32" => Self::Int32,
            "int64" => Self::Int64,
            "double" => Self::Double,
            name => Self::Message(index(name)),
        }
    }
}

/// Returns one word of a line.
fn word(line: &str, place: usize) -> &str {
    line.split(' ').nth(place).expect("a line must have all of its words")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_sorted() {
        assert!(TABLE.kinds.is_sorted_by_key(|(key, _)| key));
        assert!(TABLE.messages.is_sorted_by_key(|message| message.name));
        for message in &TABLE.messages {
            let sorted = message.fields.is_sorted_by_key(|field| field.number);
            assert!(sorted, "{}", message.name);
        }
    }

    #[test]
    fn every_built_in_kind_has_a_message() {
        for kind in crate::kinds::builtin() {
            for version in &kind.versions {
                let version = kind.api_version(&version.name);
                assert!(TABLE.kind(&version, &kind.kind).is_some(), "{version} {}", kind.kind);
            }
        }
    }
}
