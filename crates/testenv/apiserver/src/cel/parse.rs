//! Parses an expression into a tree, with the parser of the `cel` crate.
//!
//! The parser has limitations that this file works around:
//!
//! - It recurses. Expressions that are nested deeper than [`DEPTH_MAX`] are rejected before
//!   parsing, and [`on_parser_stack`] provides the stack for the others.
//! - It visits the operand of `!!` and `--` twice, and negates it. [`Source`] replaces such pairs
//!   by spaces.
//! - It does not understand all string literals. [`Source`] replaces those by placeholders.
//! - It returns the positions of nodes only with an error. [`places`] appends an invalid character
//!   to the source, and reads the positions from the error.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::common::ast::{
    self, CallExpr, ComprehensionExpr, EntryExpr, Expr as Parsed, IdedExpr, LiteralValue,
    SourceInfo,
};
use kube_cel::cel::parser::Parser;

use super::ast::{Entry, Expr, Item, Kind, Loop, LoopKind};
use super::depth::nesting;
use super::issue::{Issue, Position};
use super::keywords::is_reserved;
use super::literal as texts;
use super::value::Val;

/// The limit on the nesting of an expression, as in cel-go.
const DEPTH_MAX: u16 = 250;
/// The length limit of an expression. In cel-go it is ten times as high.
const LENGTH_MAX: usize = 10_000;
/// The stack size of the thread that compiles. [`DEPTH_MAX`] brackets take 40 MiB without
/// optimisations; this is three times as much. It is address space: only pages in use take memory.
const STACK: usize = 128 << 20;

/// Runs the compiler of a definition's rules on a stack that is large enough for [`parse`] and
/// [`places`]. Returns `None` if no such thread can be started, or if it panics.
///
/// Nesting is limited before anything is parsed, so a stack of a fixed size suffices. 250 levels of
/// the parser need more stack than a tokio worker has, so the compiler runs on its own thread. One
/// thread compiles all rules of a definition, instead of one thread for each expression.
pub(super) fn on_parser_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, run);
        thread.ok()?.join().ok()
    })
}

/// Parses an expression. Must run inside [`on_parser_stack`].
pub(super) fn parse(source: &str) -> Result<Expr, Vec<Issue>> {
    let refused = |text: String| Err(vec![Issue { place: Position::UNKNOWN, text }]);
    let length = source.chars().count();
    if length > LENGTH_MAX {
        return refused(format!(
            "expression code point size exceeds limit: size: {length}, limit {LENGTH_MAX}"
        ));
    }
    let prepared = Source::new(source);
    if nesting(&prepared.text) > usize::from(DEPTH_MAX) {
        return refused(format!("expression recursion limit exceeded: {DEPTH_MAX}"));
    }
    // The parser panics on some invalid expressions.
    let parsed = catch_unwind(AssertUnwindSafe(|| parser().parse(&prepared.text)));
    let parsed = match parsed {
        Ok(Ok(parsed)) => parsed,
        Ok(Err(errors)) => {
            let errors = errors.errors.into_iter().map(|error| {
                let place = Position::new(error.pos.0, error.pos.1);
                Issue { text: reworded(error.msg, place.before(source)), place }
            });
            return Err(syntax_errors_or_all(errors.collect()));
        }
        Err(_) => return refused("the expression cannot be parsed".to_owned()),
    };
    let mut reader = Reader { places: None, source, taken: &prepared.taken };
    reader.read(&parsed).map_err(|issue| vec![issue])
}

/// The positions of the nodes of a parsed expression.
pub(super) struct Places {
    info: Option<Arc<SourceInfo>>,
}

/// Finds the positions in an expression that [`parse`] accepted. Must run inside
/// [`on_parser_stack`].
pub(super) fn places(source: &str) -> Places {
    let broken = format!("{}\n\u{7}", Source::new(source).text);
    let errors = parser().parse(&broken).err();
    let mut errors = errors.into_iter().flat_map(|errors| errors.errors);
    Places { info: errors.find_map(|error| error.source_info) }
}

impl Places {
    /// Returns the position of a node.
    pub(super) fn of(&self, id: u64, source: &str) -> Position {
        let start = self.info.as_ref().and_then(|info| info.offset_for(id));
        start.map_or(Position::UNKNOWN, |(start, _)| Position::at(source, start as usize))
    }
}

fn parser() -> Parser {
    Parser::new().enable_optional_syntax(true).max_recursion_depth(DEPTH_MAX)
}

/// Returns only the syntax errors, if there are any: the parser's other errors about an incomplete
/// tree are noise.
fn syntax_errors_or_all(errors: Vec<Issue>) -> Vec<Issue> {
    let is_syntax = |issue: &Issue| issue.text.starts_with("Syntax error");
    if errors.iter().any(is_syntax) {
        errors.into_iter().filter(is_syntax).collect()
    } else {
        errors
    }
}

/// Returns cel-go's text for an error of the parser, which has one text for all macros.
fn reworded(text: String, before: &str) -> String {
    let before = before.trim_end();
    if text == "argument must be a simple name"
        && (before.ends_with("map(") || before.ends_with("filter("))
    {
        return "argument is not an identifier".to_owned();
    }
    text
}

/// The source for the parser. Every byte keeps its position.
struct Source {
    text: String,
    /// The values of the placeholders.
    taken: Vec<Val>,
}

impl Source {
    fn new(source: &str) -> Self {
        let mut taken = Vec::new();
        let mut bytes = source.as_bytes().to_vec();
        let mut run: Vec<usize> = Vec::new();
        let mut follows_operand = false;
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            let ends = !matches!(byte, b'!' | b'-') && !byte.is_ascii_whitespace();
            if ends {
                // Two unary operators cancel each other out.
                if run.len() == 2 {
                    blank(&mut bytes, &run);
                }
                run.clear();
            }
            if let Some(end) = texts::end(source, at) {
                if let Some(mark) = texts::take_out(&source[at..end], &mut taken) {
                    bytes[at..end].copy_from_slice(mark.as_bytes());
                }
                (follows_operand, at) = (true, end);
                continue;
            }
            if source[at..].starts_with("//") {
                at += source[at..].find('\n').unwrap_or(source.len() - at);
                continue;
            }
            let is_unary = match byte {
                b'!' => !source[at..].starts_with("!="),
                b'-' => !follows_operand,
                _ => false,
            };
            if is_unary {
                if run.last().is_some_and(|last| bytes[*last] != byte) {
                    run.clear();
                }
                run.push(at);
                if run.len() == 3 {
                    // Keep the first: its position is that of the operator.
                    blank(&mut bytes, &run[1..]);
                    run.truncate(1);
                }
            } else if texts::is_word(source, at, "in") {
                follows_operand = false;
                at += 1;
            } else if !byte.is_ascii_whitespace() {
                follows_operand = !b"+-*%/<>=&|?:,([{!".contains(&byte);
            }
            at += char_length(source, at);
        }
        let text = String::from_utf8(bytes).unwrap_or_else(|_| source.to_owned());
        Self { text, taken }
    }
}

fn char_length(source: &str, at: usize) -> usize {
    source[at..].chars().next().map_or(1, char::len_utf8)
}

fn blank(bytes: &mut [u8], places: &[usize]) {
    for place in places {
        bytes[*place] = b' ';
    }
}

/// Converts the parser's tree to ours.
struct Reader<'a> {
    places: Option<Places>,
    source: &'a str,
    taken: &'a [Val],
}

impl Reader<'_> {
    fn read(&mut self, parsed: &IdedExpr) -> Result<Expr, Issue> {
        let kind = match &parsed.expr {
            Parsed::Literal(value) => Kind::Literal(self.literal(value)),
            Parsed::Ident(name) => {
                self.check_name(parsed.id, name)?;
                Kind::Ident(name.clone())
            }
            Parsed::Select(select) => Kind::Select {
                operand: Box::new(self.read(&select.operand)?),
                field: select.field.clone(),
                test: select.test,
            },
            Parsed::Call(call) => self.call(parsed.id, call)?,
            Parsed::List(list) => {
                let mut items = Vec::with_capacity(list.elements.len());
                for (index, element) in list.elements.iter().enumerate() {
                    let optional = list.optional_indices.contains(&index);
                    items.push(Item { value: self.read(element)?, optional });
                }
                Kind::List(items)
            }
            Parsed::Map(map) => Kind::Map(self.entries(map)?),
            Parsed::Struct(message) => Kind::Message(message.type_name.clone()),
            Parsed::Comprehension(loop_) => Kind::Loop(Box::new(self.comprehension(loop_)?)),
            Parsed::Unspecified => {
                return Err(self.issue(parsed.id, "the expression cannot be parsed"));
            }
        };
        Ok(Expr { id: parsed.id, kind })
    }

    fn entries(&mut self, map: &ast::MapExpr) -> Result<Vec<Entry>, Issue> {
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            entries.push(Entry {
                key: self.read(&entry.key)?,
                value: self.read(&entry.value)?,
                optional: entry.optional,
            });
        }
        Ok(entries)
    }

    fn call(&mut self, id: u64, call: &CallExpr) -> Result<Kind, Issue> {
        let function = call.func_name.as_str();
        if let (ast::operators::OPT_SELECT, [operand, field]) = (function, call.args.as_slice())
            && let Parsed::Literal(LiteralValue::String(field)) = &field.expr
        {
            let operand = Box::new(self.read(operand)?);
            return Ok(Kind::OptionalSelect { operand, field: field.inner().to_owned() });
        }
        if let Some(target) = &call.target
            && let Some(kind) = LoopKind::of_macro(function, call.args.len())
        {
            return Ok(Kind::Loop(Box::new(self.macro_call(kind, target, &call.args)?)));
        }
        if call.target.is_none() {
            self.check_name(id, function)?;
        }
        let target = match &call.target {
            Some(target) => Some(Box::new(self.read(target)?)),
            None => None,
        };
        let args = call.args.iter().map(|arg| self.read(arg)).collect::<Result<_, _>>()?;
        Ok(Kind::Call { function: function.to_owned(), target, args })
    }

    /// Reads a macro that the parser does not know.
    fn macro_call(
        &mut self,
        kind: LoopKind,
        target: &IdedExpr,
        args: &[IdedExpr],
    ) -> Result<Loop, Issue> {
        let first = self.variable(kind, &args[0])?;
        let (second, rest) = if kind.has_one_variable() {
            (None, &args[1..])
        } else {
            let second = self.variable(kind, &args[1])?;
            if second == first {
                return Err(self.issue(args[1].id, &format!("duplicate variable name: {first}")));
            }
            (Some(second), &args[2..])
        };
        let (filter, body) = match rest {
            [filter, body] => (Some(self.read(filter)?), body),
            rest => (None, &rest[0]),
        };
        Ok(Loop {
            kind,
            range: self.read(target)?,
            variable: first,
            second,
            filter,
            body: self.read(body)?,
        })
    }

    fn variable(&mut self, kind: LoopKind, arg: &IdedExpr) -> Result<String, Issue> {
        let text = match (kind, &arg.expr) {
            (_, Parsed::Ident(name)) if matches!(name.as_str(), "@result" | "__result__") => {
                "iteration variable overwrites accumulator variable"
            }
            (_, Parsed::Ident(name)) => return Ok(name.clone()),
            (LoopKind::OptionalMap, _) => "optMap() variable name must be a simple identifier",
            (LoopKind::OptionalFlatMap, _) => {
                "optFlatMap() variable name must be a simple identifier"
            }
            _ => "argument must be a simple name",
        };
        Err(self.issue(arg.id, text))
    }

    /// Recovers the macro that the parser expanded to a comprehension.
    fn comprehension(&mut self, loop_: &ComprehensionExpr) -> Result<Loop, Issue> {
        let (kind, filter, body) = match (&loop_.accu_init.expr, &loop_.loop_step.expr) {
            (Parsed::List(_), Parsed::Call(step)) => match step.args.as_slice() {
                [filter, added, _] => (LoopKind::List, Some(filter), appended(added)),
                _ => (LoopKind::List, None, appended(&loop_.loop_step)),
            },
            (Parsed::Literal(LiteralValue::Int(_)), Parsed::Call(step)) => {
                (LoopKind::ExistsOne, None, step.args.first())
            }
            (Parsed::Literal(LiteralValue::Boolean(init)), Parsed::Call(step)) => {
                let kind = if *init.inner() { LoopKind::All } else { LoopKind::Exists };
                (kind, None, step.args.last())
            }
            _ => (LoopKind::List, None, None),
        };
        let Some(body) = body else {
            return Err(self.issue(loop_.iter_range.id, "the macro cannot be read"));
        };
        Ok(Loop {
            kind,
            range: self.read(&loop_.iter_range)?,
            variable: loop_.iter_var.clone(),
            second: None,
            filter: match filter {
                Some(filter) => Some(self.read(filter)?),
                None => None,
            },
            body: self.read(body)?,
        })
    }

    fn literal(&self, value: &LiteralValue) -> Val {
        match value {
            LiteralValue::Boolean(value) => Val::Bool(*value.inner()),
            LiteralValue::Double(value) => Val::Double(*value.inner()),
            LiteralValue::Int(value) => Val::Int(*value.inner()),
            LiteralValue::UInt(value) => Val::Uint(*value.inner()),
            LiteralValue::Null => Val::Null,
            LiteralValue::String(value) => match texts::put_back(value.inner(), self.taken) {
                Some(text) => text.clone(),
                None => Val::text(value.inner()),
            },
            LiteralValue::Bytes(value) => {
                let text = std::str::from_utf8(value.inner()).ok();
                match text.and_then(|text| texts::put_back(text, self.taken)) {
                    Some(text) => text.clone(),
                    None => Val::Bytes(value.inner().into()),
                }
            }
        }
    }

    fn check_name(&mut self, id: u64, name: &str) -> Result<(), Issue> {
        if is_reserved(name) {
            return Err(self.issue(id, &format!("reserved identifier: {name}")));
        }
        Ok(())
    }

    fn issue(&mut self, id: u64, text: &str) -> Issue {
        let places = self.places.get_or_insert_with(|| places(self.source));
        Issue { place: places.of(id, self.source), text: text.to_owned() }
    }
}

/// Returns `x` of `@result + [x]`.
fn appended(step: &IdedExpr) -> Option<&IdedExpr> {
    let Parsed::Call(call) = &step.expr else { return None };
    match &call.args.get(1)?.expr {
        Parsed::List(list) => list.elements.first(),
        _ => None,
    }
}
