//! Type checking, with the rules and the error texts of cel-go's checker.
//!
//! The checker also resolves qualified names: `ip.isCanonical(x)` is a function with a dot in its
//! name, not a method of a variable `ip`.

use std::collections::BTreeMap;

use super::ast::{Entry, Expr, Item, Kind, Loop, LoopKind};
use super::declarations::{Overload, function, named_type};
use super::types::{Substitution, Type};
use super::value::Val;

/// The result of checking an expression.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) result: Type,
    /// Whether `oldSelf` is used.
    pub(super) uses_old: bool,
    /// The errors, with the ids of their expressions.
    pub(super) errors: Vec<(u64, String)>,
}

/// Checks an expression with these variables in scope.
pub(super) fn check(expr: &mut Expr, variables: BTreeMap<String, Type>) -> Checked {
    let mut checker = Checker {
        scopes: vec![variables],
        substitution: Substitution::default(),
        uses_old: false,
        errors: Vec::new(),
        mixed: Vec::new(),
        formats: 0,
    };
    let result = checker.expr(expr);
    let result = checker.substitution.resolve_or_dyn(&result);
    let errors = if checker.errors.is_empty() { checker.mixed } else { checker.errors };
    Checked { result, uses_old: checker.uses_old, errors }
}

struct Checker {
    scopes: Vec<BTreeMap<String, Type>>,
    substitution: Substitution,
    uses_old: bool,
    errors: Vec<(u64, String)>,
    /// Errors about lists and maps of mixed types. They are only reported if there are no others.
    mixed: Vec<(u64, String)>,
    /// The number of enclosing calls of `format`, whose list may have mixed types.
    formats: usize,
}

impl Checker {
    fn expr(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        if let Kind::Select { test: false, .. } = expr.kind
            && let Some(name) = expr.qualified_name()
            && let Some(found) = named_type(&name)
        {
            expr.kind = Kind::Ident(name);
            return Type::Meta(Some(found.into()));
        }
        match &mut expr.kind {
            Kind::Literal(value) => literal_type(value),
            Kind::Ident(name) => self.ident(id, name),
            Kind::Select { operand, field, test } => {
                let found = self.select(id, operand, field);
                if *test { Type::Bool } else { found }
            }
            Kind::OptionalSelect { operand, field } => {
                let found = self.select(id, operand, field);
                if found.unwrapped().is_some() { found } else { Type::optional(found) }
            }
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(name) => {
                let name = name.clone();
                self.undeclared(id, &name)
            }
            Kind::Loop(loop_) => self.loop_(id, loop_),
            Kind::Call { .. } => self.call(expr),
        }
    }

    fn error(&mut self, id: u64, text: String) -> Type {
        self.errors.push((id, text));
        Type::Error
    }

    fn undeclared(&mut self, id: u64, name: &str) -> Type {
        self.error(id, format!("undeclared reference to '{name}' (in container '')"))
    }

    fn mismatch(&mut self, id: u64, expected: &Type, found: &Type) -> Type {
        let (expected, found) =
            (self.substitution.resolve(expected), self.substitution.resolve(found));
        self.error(id, format!("expected type '{expected}' but found '{found}'"))
    }

    fn ident(&mut self, id: u64, name: &str) -> Type {
        if let Some(found) = self.scopes.iter().rev().find_map(|scope| scope.get(name)) {
            self.uses_old |= name == "oldSelf";
            return found.clone();
        }
        match named_type(name) {
            Some(found) => Type::Meta(Some(found.into())),
            None => self.undeclared(id, name),
        }
    }

    fn select(&mut self, id: u64, operand: &mut Expr, field: &str) -> Type {
        let operand = self.expr(operand);
        let operand = self.substitution.resolve(&operand);
        let (target, optional) = match operand.unwrapped() {
            Some(inner) => (inner.clone(), true),
            None => (operand, false),
        };
        let found = match &target {
            Type::Map(pair) => pair.1.clone(),
            Type::Object(object) => match object.fields.get(field) {
                Some(found) => found.clone(),
                None => self.error(id, format!("undefined field '{field}'")),
            },
            Type::Param(_) => {
                self.substitution.fit(&[Type::Dyn], &[target]);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let text = format!("type '{other}' does not support field selection");
                self.error(id, text);
                Type::Dyn
            }
        };
        if optional { Type::optional(found) } else { found }
    }

    fn list(&mut self, items: &mut [Item]) -> Type {
        let mut joined: Option<Type> = None;
        for item in items {
            let found = self.expr(&mut item.value);
            let found = self.unwrap_optional(item.value.id, found, item.optional);
            joined = Some(self.join(item.value.id, joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.substitution.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.expr(&mut entry.key);
            keys = Some(self.join(entry.key.id, keys, key));
            let value = self.expr(&mut entry.value);
            let value = self.unwrap_optional(entry.value.id, value, entry.optional);
            values = Some(self.join(entry.value.id, values, value));
        }
        let keys = keys.unwrap_or_else(|| self.substitution.fresh());
        Type::map(keys, values.unwrap_or_else(|| self.substitution.fresh()))
    }

    fn unwrap_optional(&mut self, id: u64, found: Type, optional: bool) -> Type {
        if !optional {
            return found;
        }
        let found = self.substitution.resolve(&found);
        match found.unwrapped() {
            Some(inner) => inner.clone(),
            None if found == Type::Dyn => found,
            None => {
                self.mismatch(id, &Type::optional(found.clone()), &found);
                found
            }
        }
    }

    /// Returns the common type of items, keys or values. If they have none, it is `dyn`, and an
    /// error is added to `mixed`.
    fn join(&mut self, id: u64, before: Option<Type>, next: Type) -> Type {
        let Some(before) = before else { return next };
        if let Some(joined) = self.substitution.join(&before, &next) {
            return joined;
        }
        if self.formats == 0 {
            let (expected, found) = (
                self.substitution.resolve_or_dyn(&before),
                self.substitution.resolve_or_dyn(&next),
            );
            self.mixed.push((id, format!("expected type '{expected}' but found '{found}'")));
        }
        Type::Dyn
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let id = expr.id;
        let Kind::Call { function: name, target, args } = &mut expr.kind else {
            return Type::Error;
        };
        let is_format = target.is_some() && name == "format";
        self.formats += usize::from(is_format);
        let mut types: Vec<Type> = args.iter_mut().map(|arg| self.expr(arg)).collect();
        self.formats -= usize::from(is_format);
        if let Some(receiver) = target {
            let qualified = receiver.qualified_name().map(|prefix| format!("{prefix}.{name}"));
            if let Some(qualified) = qualified.filter(|qualified| function(qualified).is_some()) {
                *name = qualified;
                *target = None;
            } else {
                types.insert(0, self.expr(receiver));
            }
        }
        let plain = name.trim_start_matches('.').to_owned();
        let Some(overloads) = function(&plain) else { return self.undeclared(id, &plain) };
        *name = plain;
        let member = target.is_some();
        if matches!(name.as_str(), "_&&_" | "_||_") {
            let ids: Vec<u64> = args.iter().map(|arg| arg.id).collect();
            return self.logic(&ids, &types);
        }
        let name = name.clone();
        let found = self.resolve(id, &name, overloads, member, &types);
        self.check_literals(&name, args);
        found
    }

    fn logic(&mut self, ids: &[u64], types: &[Type]) -> Type {
        let mut result = Type::Bool;
        for (id, found) in ids.iter().zip(types) {
            if !self.substitution.fit(std::slice::from_ref(found), &[Type::Bool]) {
                result = self.mismatch(*id, &Type::Bool, found);
            }
        }
        result
    }

    fn resolve(
        &mut self,
        id: u64,
        name: &str,
        overloads: &[Overload],
        member: bool,
        types: &[Type],
    ) -> Type {
        let mut result: Option<Type> = None;
        for overload in overloads.iter().filter(|overload| overload.member == member) {
            let mut declared = self.substitution.instantiate(&overload.types);
            let returned = declared.pop().unwrap_or(Type::Dyn);
            if !self.substitution.fit(types, &declared) {
                continue;
            }
            let returned = self.substitution.resolve(&returned);
            result = Some(match result {
                None => returned,
                Some(Type::Dyn) => Type::Dyn,
                Some(before) if before == returned => before,
                Some(_) => Type::Dyn,
            });
        }
        if let Some(result) = result {
            return result;
        }
        let mut shown = types.iter().map(|one| self.substitution.resolve_or_dyn(one).to_string());
        let target = if member { shown.next().map(|one| one + ".") } else { None };
        let shown: Vec<String> = shown.collect();
        let signature = format!("{}({})", target.unwrap_or_default(), shown.join(", "));
        self.error(id, format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    /// Reports literals that can never be parsed.
    fn check_literals(&mut self, name: &str, args: &[Expr]) {
        let Some(last) = args.last() else { return };
        let Kind::Literal(Val::String(text)) = &last.kind else { return };
        let wrong = match name {
            "matches" => crate::schema::pattern::Pattern::new(text).is_err(),
            "duration" | "timestamp" => {
                super::library::call(name, None, &[Val::String(text.clone())]).is_err()
            }
            _ => false,
        };
        if wrong {
            self.error(last.id, format!("invalid {name} argument"));
        }
    }

    fn loop_(&mut self, id: u64, loop_: &mut Loop) -> Type {
        if matches!(loop_.kind, LoopKind::OptionalMap | LoopKind::OptionalFlatMap) {
            return self.optional_map(id, loop_);
        }
        let range = self.expr(&mut loop_.range);
        let range = self.substitution.resolve(&range);
        let (first, second) = self.variables(loop_.range.id, &range, loop_.second.is_some());
        let mut scope = BTreeMap::from([(loop_.variable.clone(), first.clone())]);
        if let (Some(name), Some(found)) = (&loop_.second, second) {
            scope.insert(name.clone(), found);
        }
        self.scopes.push(scope);
        let filter = loop_.filter.as_mut().map(|filter| self.expr(filter));
        let body = self.expr(&mut loop_.body);
        self.scopes.pop();
        let body_id = loop_.body.id;
        let result = match loop_.kind {
            LoopKind::All | LoopKind::Exists => self.logic(&[body_id], &[body]),
            LoopKind::ExistsOne => {
                self.conditional(id, body, &Type::Int);
                Type::Bool
            }
            LoopKind::List => Type::list(body),
            LoopKind::Map => Type::map(first, body),
            LoopKind::MapEntry => {
                let place = Type::map(self.substitution.fresh(), self.substitution.fresh());
                if !self.substitution.fit(std::slice::from_ref(&body), &[place]) {
                    let shown = self.substitution.resolve_or_dyn(&body);
                    self.error(
                        id,
                        format!(
                            "found no matching overload for 'cel.@mapInsert' applied to \
                             '(map(dyn, dyn), {shown})'"
                        ),
                    );
                }
                body
            }
            LoopKind::SortBy => {
                let name = "@sortByAssociatedKeys";
                let overloads = function(name).unwrap_or_default();
                self.resolve(id, name, overloads, true, &[range, Type::list(body)])
            }
            LoopKind::OptionalMap | LoopKind::OptionalFlatMap => Type::Error,
        };
        if let Some(filter) = filter {
            self.conditional(id, filter, &result);
        }
        self.substitution.resolve(&result)
    }

    /// Checks the condition of `condition ? … : …`.
    fn conditional(&mut self, id: u64, condition: Type, branch: &Type) {
        let overloads = function("_?_:_").unwrap_or_default();
        let types = [condition, branch.clone(), branch.clone()];
        self.resolve(id, "_?_:_", overloads, false, &types);
    }

    /// Returns the types of a loop's variables.
    fn variables(&mut self, id: u64, range: &Type, two: bool) -> (Type, Option<Type>) {
        match range {
            Type::List(item) if two => (Type::Int, Some((**item).clone())),
            Type::List(item) => ((**item).clone(), None),
            Type::Map(pair) => (pair.0.clone(), two.then(|| pair.1.clone())),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.substitution.fit(&[Type::Dyn], std::slice::from_ref(range));
                (Type::Dyn, two.then_some(Type::Dyn))
            }
            other => {
                let text = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, \
                     map, or dynamic)"
                );
                self.error(id, text);
                (Type::Error, two.then_some(Type::Error))
            }
        }
    }

    fn optional_map(&mut self, id: u64, loop_: &mut Loop) -> Type {
        let range = self.expr(&mut loop_.range);
        let overloads = function("value").unwrap_or_default();
        let inner = self.resolve(id, "value", overloads, true, &[range]);
        self.scopes.push(BTreeMap::from([(loop_.variable.clone(), inner)]));
        let body = self.expr(&mut loop_.body);
        self.scopes.pop();
        if loop_.kind == LoopKind::OptionalMap {
            return Type::optional(body);
        }
        let place = Type::optional(self.substitution.fresh());
        if !self.substitution.fit(std::slice::from_ref(&body), std::slice::from_ref(&place)) {
            let overloads = function("_?_:_").unwrap_or_default();
            return self.resolve(id, "_?_:_", overloads, false, &[Type::Bool, body, place]);
        }
        self.substitution.resolve(&body)
    }
}

fn literal_type(value: &Val) -> Type {
    match value {
        Val::Null => Type::Null,
        Val::Bool(_) => Type::Bool,
        Val::Int(_) => Type::Int,
        Val::Uint(_) => Type::Uint,
        Val::Double(_) => Type::Double,
        Val::String(_) => Type::String,
        Val::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}
