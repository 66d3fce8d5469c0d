//! The shapes in memory, parsed once from `shapes.txt`.
//!
//! The head of the file describes its format. All strings borrow from the file, and types refer to
//! each other by name because they are recursive. If a list has markers only for strategic merge
//! patches, server-side apply uses them, too.
//!
//! Invariant: kinds, types and the fields of a type are sorted by their names, as in the file.

use std::sync::LazyLock;

/// The shapes of the built-in kinds. Parsed when the first object is decoded, so that the server
/// starts fast.
pub(crate) static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::parse(include_str!("shapes.txt")));

/// The type of `metadata`.
pub(crate) const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// All shapes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Version and kind, such as `apps/v1` and `Deployment`, with the name of the type.
    kinds: Vec<((&'static str, &'static str), &'static str)>,
    types: Vec<Type>,
}

/// A Go struct.
#[derive(Debug)]
pub(crate) struct Type {
    /// Its name, as in `core.v1.PodSpec`.
    name: &'static str,
    pub(crate) fields: Vec<Field>,
    /// Whether server-side apply replaces a value of the type as a whole, and not field by field.
    pub(crate) atomic: bool,
}

/// A field of a struct.
#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in JSON.
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    /// The embedded Go structs that hold the field, joined by dots; usually empty.
    pub(crate) inline: &'static str,
    pub(crate) merging: ApplyMarkers,
    pub(crate) patching: PatchMarkers,
    /// Whether Go writes the field even if it is empty.
    pub(crate) always: bool,
    /// The default of a string field.
    pub(crate) default: Option<&'static str>,
}

/// How a value merges with another one in server-side apply.
#[derive(Debug, Default)]
pub(crate) struct ApplyMarkers {
    pub(crate) list: ListIdentity,
    /// Whether a map or struct is applied as a whole. If `None`, the type decides.
    pub(crate) atomic: Option<bool>,
}

/// How a value merges in a strategic merge patch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PatchMarkers {
    /// `merge`, `replace`, or empty if Kubernetes names none. `retainKeys` is left out, because
    /// only the author of a patch uses it.
    pub(crate) strategy: &'static str,
    /// The field that identifies the items of a list; may be empty.
    pub(crate) key: &'static str,
}

/// How the items of a list are identified.
#[derive(Debug, Default)]
pub(crate) enum ListIdentity {
    /// The list is applied as a whole.
    #[default]
    Atomic,
    /// By their values.
    Set,
    /// By the values of these fields.
    Keyed(Vec<&'static str>),
}

/// The type of a value. The strings are the names of Go types, or empty for unnamed types.
#[derive(Debug)]
pub(crate) enum Shape {
    String(&'static str),
    Bool(&'static str),
    Int32(&'static str),
    Int64(&'static str),
    Float(&'static str),
    List(&'static str, Box<Shape>),
    /// The name of the Go type, the type of the keys, and the shape of the values.
    Map(&'static str, &'static str, Box<Shape>),
    /// Bytes, as base64 or as a list of numbers.
    Bytes,
    /// One byte of such a list. No field has this shape.
    Byte,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Any,
    /// An `OpenAPI` schema, or a list of them.
    Schemas,
    /// An `OpenAPI` schema, or a boolean.
    SchemaOrBool,
    /// An `OpenAPI` schema, or a list of strings.
    SchemaOrTexts,
    /// A struct, by the name of its type.
    Struct(&'static str),
}

impl Table {
    /// Returns the name of the type of a kind.
    pub(crate) fn kind(&self, version: &str, kind: &str) -> Option<&'static str> {
        let found = self.kinds.binary_search_by(|(key, _)| key.cmp(&(version, kind))).ok()?;
        Some(self.kinds[found].1)
    }

    /// Returns a type by its name.
    pub(crate) fn get(&self, name: &str) -> &Type {
        let found = self.types.binary_search_by(|candidate| candidate.name.cmp(name));
        &self.types[found.expect("a type that a shape names must be in the file")]
    }

    fn parse(text: &'static str) -> Self {
        let mut table = Self::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.trim_start().split(' ');
            let mut word = || words.next().expect("a line must have all of its words");
            if line.starts_with(' ') {
                let (name, shape) = (word(), Shape::parse(word()));
                let words: Vec<&str> = words.collect();
                let owner = table.types.last_mut().expect("fields must follow their type");
                owner.fields.push(Field {
                    name,
                    shape,
                    inline: word_with_prefix(&words, "in:").unwrap_or_default(),
                    merging: ApplyMarkers::parse(&words),
                    patching: PatchMarkers::parse(&words),
                    always: words.contains(&"always"),
                    default: word_with_prefix(&words, "default:"),
                });
            } else if line.starts_with("kind ") {
                word();
                table.kinds.push(((word(), word()), word()));
            } else {
                let name = word();
                let atomic = words.any(|word| word == "map:atomic");
                table.types.push(Type { name, fields: Vec::new(), atomic });
            }
        }
        table
    }
}

impl ApplyMarkers {
    fn parse(words: &[&'static str]) -> Self {
        let keys = |list: &'static str| ListIdentity::Keyed(list.split(',').collect());
        // Lists with markers only for strategic merge patches merge the same way in apply.
        let patched = || match word_with_prefix(words, "patch:") {
            Some("merge" | "merge,retainKeys") => {
                word_with_prefix(words, "mergekey:").map_or(ListIdentity::Set, keys)
            }
            _ => ListIdentity::Atomic,
        };
        let list = match word_with_prefix(words, "list:") {
            Some("set") => ListIdentity::Set,
            Some("map") => keys(word_with_prefix(words, "keys:").unwrap_or_default()),
            Some(_) => ListIdentity::Atomic,
            None => patched(),
        };
        Self { list, atomic: word_with_prefix(words, "map:").map(|kind| kind == "atomic") }
    }
}

impl PatchMarkers {
    fn parse(words: &[&'static str]) -> Self {
        let strategies = word_with_prefix(words, "patch:").unwrap_or_default();
        let strategy = strategies.split(',').find(|&strategy| strategy != "retainKeys");
        Self {
            strategy: strategy.unwrap_or_default(),
            key: word_with_prefix(words, "mergekey:").unwrap_or_default(),
        }
    }
}

/// Returns the rest of the word with this prefix.
fn word_with_prefix(words: &[&'static str], prefix: &str) -> Option<&'static str> {
    words.iter().find_map(|word| word.strip_prefix(prefix))
}

impl Type {
    /// Returns a field by its JSON name. Names are case-sensitive, as on the real server.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        let found = self.fields.binary_search_by(|field| field.name.cmp(name)).ok()?;
        Some(&self.fields[found])
    }

    /// Returns the Go name without the package, such as `PodSpec`.
    pub(crate) fn struct_name(&self) -> &'static str {
        self.name.rsplit('.').next().unwrap_or(self.name)
    }
}

impl Shape {
    fn parse(text: &'static str) -> Self {
        let (name, rest) =
            text.split_once('=').filter(|(name, _)| is_name(name)).unwrap_or(("", text));
        if let Some(items) = rest.strip_prefix("[]") {
            return Self::List(name, Box::new(Self::parse(items)));
        }
        if let Some((key, values)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            return Self::Map(name, key, Box::new(Self::parse(values)));
        }
        match rest {
            "string" => Self::String(name),
            "bool" => Self::Bool(name),
            "int32" => Self::Int32(name),
            "int64" => Self::Int64(name),
            "float64" => Self::Float(name),
            "bytes" => Self::Bytes,
            "time" => Self::Time,
            "microtime" => Self::MicroTime,
            "quantity" => Self::Quantity,
            "intstr" => Self::IntOrString,
            "any" => Self::Any,
            "schemas" => Self::Schemas,
            "schemaOrBool" => Self::SchemaOrBool,
            "schemaOrTexts" => Self::SchemaOrTexts,
            name => Self::Struct(name),
        }
    }

    /// Returns the `reflect.Kind` of the type, such as `slice`.
    pub(crate) fn go_kind(&self) -> &'static str {
        match self {
            Self::String(_) => "string",
            Self::Bool(_) => "bool",
            Self::Int32(_) => "int32",
            Self::Int64(_) => "int64",
            Self::Float(_) => "float64",
            Self::Byte => "uint8",
            Self::List(..) | Self::Bytes => "slice",
            Self::Map(..) => "map",
            _ => "struct",
        }
    }

    /// Returns the type as Go prints it, such as `[]v1.Container`.
    pub(crate) fn go_type(&self) -> String {
        let named = |name: &str, or: &str| if name.is_empty() { or } else { name }.to_owned();
        match self {
            Self::String(name) => named(name, "string"),
            Self::Bool(name) => named(name, "bool"),
            Self::Int32(name) => named(name, "int32"),
            Self::Int64(name) => named(name, "int64"),
            Self::Float(name) => named(name, "float64"),
            Self::List("", items) => format!("[]{}", items.go_type()),
            Self::Map("", key, values) => {
                format!("map[{}]{}", named(key, "string"), values.go_type())
            }
            Self::List(name, _) | Self::Map(name, ..) => (*name).to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Byte => "uint8".to_owned(),
            Self::Time => "v1.Time".to_owned(),
            Self::MicroTime => "v1.MicroTime".to_owned(),
            Self::Quantity => "resource.Quantity".to_owned(),
            Self::IntOrString => "intstr.IntOrString".to_owned(),
            Self::Any => "v1.JSON".to_owned(),
            Self::Schemas => "v1.JSONSchemaPropsOrArray".to_owned(),
            Self::SchemaOrBool => "v1.JSONSchemaPropsOrBool".to_owned(),
            Self::SchemaOrTexts => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            // Go prints the name of the package without the group, which is only in its path.
            Self::Struct(name) => name.split_once('.').map_or(*name, |(_, shown)| shown).to_owned(),
        }
    }
}

/// Whether the text is the name of a type, and not a list or map of a named type.
fn is_name(text: &str) -> bool {
    !text.starts_with(['[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_is_sorted_and_every_type_that_it_names_is_in_it() {
        fn check(table: &Table, shape: &Shape) {
            match shape {
                Shape::List(_, inner) | Shape::Map(_, _, inner) => check(table, inner),
                Shape::Struct(name) => assert_eq!(table.get(name).name, *name),
                _ => {}
            }
        }
        assert!(TABLE.kinds.is_sorted_by_key(|(key, _)| key));
        assert!(TABLE.types.is_sorted_by_key(|one| one.name));
        TABLE.kinds.iter().for_each(|(_, name)| assert_eq!(TABLE.get(name).name, *name));
        for one in &TABLE.types {
            assert!(one.fields.is_sorted_by_key(|field| field.name), "{}", one.name);
            one.fields.iter().for_each(|field| check(&TABLE, &field.shape));
        }
    }

    #[test]
    fn types_are_shown_as_go_shows_them() {
        for (text, shown) in [
            ("string", "string"),
            ("v1.PullPolicy=string", "v1.PullPolicy"),
            ("[]core.v1.Container", "[]v1.Container"),
            ("{}bytes", "map[string][]uint8"),
            ("v1.ResourceList={v1.ResourceName}quantity", "v1.ResourceList"),
            ("{v1.ResourceName}v1.Status=string", "map[v1.ResourceName]v1.Status"),
            ("{}v1.ExtraValue=[]string", "map[string]v1.ExtraValue"),
        ] {
            assert_eq!(Shape::parse(text).go_type(), shown);
        }
    }
}
