//! Names that the language keeps for itself.

/// Names that are reserved for later.
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

/// Whether no variable can have this name.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Whether no field can be selected by this name: it is reserved, or means something already.
pub(super) fn is_keyword(name: &str) -> bool {
    is_reserved(name) || matches!(name, "true" | "false" | "null" | "in")
}
