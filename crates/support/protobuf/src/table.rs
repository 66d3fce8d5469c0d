//! The messages of the built-in kinds, parsed once from `messages.txt`, which explains its lines.
//!
//! Invariant: kinds, messages and fields are sorted: kinds by version and kind, messages by package
//! and name, fields by number.

use std::sync::LazyLock;

/// All messages. The text is parsed when the first message is needed.
pub(crate) static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("messages.txt")));

/// A version and a kind.
type TypeMeta = (&'static str, &'static str);

/// All messages.
#[derive(Debug)]
pub(crate) struct Table {
    /// Versions and kinds, with the index of the message.
    kinds: Vec<(TypeMeta, u16)>,
    messages: Vec<Message>,
}

/// A message: a Go struct.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) package: &'static str,
    /// Its name without the package, as in `PodSpec`.
    pub(crate) name: &'static str,
    pub(crate) fields: Vec<Field>,
    pub(crate) form: Form,
    /// Whether JSON has `kind` and `apiVersion` beside its fields.
    pub(crate) is_kind: bool,
}

/// The form of a message in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// An object.
    Struct,
    /// The list in its only field.
    List,
    /// A string with seconds.
    Time,
    /// A string with microseconds.
    MicroTime,
    /// A string.
    Quantity,
    /// A number or a string.
    IntOrString,
    /// Any value, as its JSON text in protobuf.
    Raw,
    SchemaOrSchemas,
    SchemaOrBool,
    SchemaOrTexts,
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) number: u32,
    /// Its name in JSON. Empty if its own fields stand in its place.
    pub(crate) name: &'static str,
    /// Its name in Go, unless that is the capitalized name in JSON.
    go_name: Option<&'static str>,
    pub(crate) repeat: Repeat,
    pub(crate) item: Type,
    /// Whether Go holds a pointer, so that empty differs from absent.
    pub(crate) pointer: bool,
    /// Whether JSON has the field even if it is empty.
    pub(crate) always: bool,
}

/// How often a field has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Once,
    List,
    /// A map with string keys.
    Map,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    String,
    Bytes,
    Bool,
    Int32,
    Int64,
    Double,
    Message(u16),
}

/// Kinds that are the same in all groups and versions, also in unknown ones.
const SHARED: [&str; 3] = ["DeleteOptions", "Status", "WatchEvent"];

impl Table {
    /// Returns the message of a kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let api_version = if SHARED.contains(&kind) { "v1" } else { api_version };
        let found = self.kinds.binary_search_by(|(key, _)| key.cmp(&(api_version, kind))).ok()?;
        Some(self.get(self.kinds[found].1))
    }

    /// Returns versions and kinds, in their order.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = TypeMeta> + '_ {
        self.kinds.iter().map(|(key, _)| *key)
    }

    pub(crate) fn get(&self, message: u16) -> &Message {
        &self.messages[usize::from(message)]
    }

    /// Returns a message by its package and name, as in `core.v1` and `PodSpec`.
    pub(crate) fn named(&self, package: &str, name: &str) -> Option<&Message> {
        let key = |message: &Message| (message.package, message.name).cmp(&(package, name));
        Some(&self.messages[self.messages.binary_search_by(key).ok()?])
    }

    fn parse(text: &'static str) -> Self {
        let mut names: Vec<(&str, &str)> = Vec::new();
        for line in lines(text) {
            match line {
                Line::Package(_) | Line::Field(_) => {}
                Line::Message(package, line) => names.push((package, word(line, 0))),
            }
        }
        let index = |package: &str, name: &str| {
            let found = names.binary_search(&(package, name));
            let found = found.expect("a message that the file names must be in it");
            u16::try_from(found).expect("the file must have fewer messages")
        };
        let mut table = Self { kinds: Vec::new(), messages: Vec::with_capacity(names.len()) };
        let mut open = "";
        for line in lines(text) {
            match line {
                Line::Package(package) => open = package,
                Line::Message(package, line) => {
                    let mut words = line.split(' ');
                    let name = words.next().expect("a line must have a word");
                    let (mark, version) = (words.next(), words.next());
                    if let (Some("kind"), Some(version)) = (mark, version) {
                        table.kinds.push(((version, name), index(package, name)));
                    }
                    let (is_kind, fields) = (mark == Some("kind"), Vec::new());
                    let form = if mark == Some("list") { Form::List } else { form(package, name) };
                    table.messages.push(Message { package, name, fields, form, is_kind });
                }
                Line::Field(line) => {
                    let owner = table.messages.last_mut();
                    let owner = owner.expect("fields must follow their message");
                    owner.fields.push(Field::parse(line, |name| match name.rsplit_once('.') {
                        Some((package, name)) => index(package, name),
                        None => index(open, name),
                    }));
                }
            }
        }
        table.kinds.sort_unstable();
        table
    }
}

/// A line of the file.
enum Line {
    Package(&'static str),
    /// A message, with its package.
    Message(&'static str, &'static str),
    Field(&'static str),
}

fn lines(text: &'static str) -> impl Iterator<Item = Line> {
    let mut open = "";
    text.lines().filter(|line| !line.starts_with('#')).map(move |line| {
        if let Some(package) = line.strip_prefix("package ") {
            open = package;
            Line::Package(package)
        } else if let Some(field) = line.strip_prefix(' ') {
            Line::Field(field)
        } else {
            Line::Message(open, line)
        }
    })
}

fn form(package: &str, name: &str) -> Form {
    match (package, name) {
        ("meta.v1", "Time") => Form::Time,
        ("meta.v1", "MicroTime") => Form::MicroTime,
        ("api.resource", "Quantity") => Form::Quantity,
        ("util.intstr", "IntOrString") => Form::IntOrString,
        ("meta.v1", "FieldsV1")
        | ("pkg.runtime", "RawExtension")
        | ("apiextensions.v1", "JSON") => Form::Raw,
        ("apiextensions.v1", "JSONSchemaPropsOrArray") => Form::SchemaOrSchemas,
        ("apiextensions.v1", "JSONSchemaPropsOrBool") => Form::SchemaOrBool,
        ("apiextensions.v1", "JSONSchemaPropsOrStringArray") => Form::SchemaOrTexts,
        _ => Form::Struct,
    }
}

impl Message {
    pub(crate) fn field(&self, number: u32) -> Option<&Field> {
        let found = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&self.fields[found])
    }

    /// Whether JSON has a field of this name, beside `kind` and `apiVersion`.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| match field.inlined() {
            Some(inner) => inner.has(name),
            None => field.name == name,
        })
    }
}

impl Field {
    fn parse(line: &'static str, index: impl Fn(&str) -> u16) -> Self {
        let [number, name, kind] = [0, 1, 2].map(|place| word(line, place));
        let (name, always) = match name.strip_suffix('!') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (name, go_name) = match (name.strip_prefix('.'), name.split_once('=')) {
            (Some(go_name), _) => ("", Some(go_name)),
            (None, Some((name, go_name))) => (name, Some(go_name)),
            (None, None) => (name, None),
        };
        let (kind, pointer) = match kind.strip_prefix('*') {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let (kind, repeat) = match (kind.strip_prefix("[]"), kind.strip_prefix("{}")) {
            (Some(item), _) => (item, Repeat::List),
            (None, Some(value)) => (value, Repeat::Map),
            (None, None) => (kind, Repeat::Once),
        };
        let item = match kind {
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "bool" => Type::Bool,
            "int32" => Type::Int32,
            "int64" => Type::Int64,
            "double" => Type::Double,
            name => Type::Message(index(name)),
        };
        let number = number.parse().expect("a field must have a number");
        Self { number, name, go_name, repeat, item, pointer, always }
    }

    /// Returns the message whose fields stand in the place of this field.
    pub(crate) fn inlined(&self) -> Option<&'static Message> {
        match self.item {
            Type::Message(inner) if self.name.is_empty() => Some(TABLE.get(inner)),
            _ => None,
        }
    }

    /// Its name in Go, for errors.
    pub(crate) fn go_name(&self) -> String {
        self.go_name.map_or_else(
            || {
                let mut name = self.name.to_owned();
                name[..1].make_ascii_uppercase();
                name
            },
            str::to_owned,
        )
    }
}

/// Returns one word of a line.
fn word(line: &str, place: usize) -> &str {
    line.split(' ').nth(place).expect("a line must have all of its words")
}

#[cfg(test)]
mod tests;
