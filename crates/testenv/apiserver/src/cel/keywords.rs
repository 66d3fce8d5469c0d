//! Reserved names of the language.

/// Names that are reserved for future use.
const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Whether a name is reserved, so that no variable can have it.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether a name is a keyword, so that no field can be selected by it.
pub(super) fn is_keyword(name: &str) -> bool {
    is_reserved(name) || matches!(name, "true" | "false" | "null" | "in")
}
