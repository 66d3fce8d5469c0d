//! Evaluation with a cost limit.
//!
//! Costs are those of cel-go and the Kubernetes libraries. A step also costs more if the time or
//! memory that it takes depends on the size of its result. So an expression ends after about as
//! many steps as on the real server, and uses no more memory than its cost allows. No clock is
//! used.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Entry, Expr, Item, Kind, Loop, LoopKind};
use super::call;
use super::declarations::named_type;
use super::stop::EvalError;
use super::value::{Key, Val};

/// The cost limit of one expression, as on the real server.
pub(super) const CALL_LIMIT: u64 = 1_000_000;

/// One evaluation of an expression.
pub(super) struct Evaluation {
    variables: Vec<(Arc<str>, Val)>,
    pub(super) cost: u64,
    pub(super) patterns: BTreeMap<Arc<str>, Arc<crate::schema::pattern::Pattern>>,
}

impl Evaluation {
    /// Returns an evaluation with these variables in scope.
    pub(super) fn new(variables: Vec<(Arc<str>, Val)>) -> Self {
        Self { variables, cost: 0, patterns: BTreeMap::new() }
    }

    /// Adds to the cost. Returns an error beyond the limit.
    pub(super) fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(cost).min(CALL_LIMIT + 1);
        if self.cost > CALL_LIMIT { Err(EvalError::Cost) } else { Ok(()) }
    }

    /// Evaluates an expression.
    pub(super) fn eval(&mut self, expr: &Expr) -> Result<Val, EvalError> {
        match &expr.kind {
            Kind::Literal(value) => Ok(value.clone()),
            Kind::Ident(name) => self.ident(name),
            Kind::Select { operand, field, test } => self.select(operand, field, *test),
            Kind::OptionalSelect { operand, field } => self.optional_select(operand, field),
            Kind::Call { function, target, args } => self.call(function, target.as_deref(), args),
            Kind::List(items) => self.list(items),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(_) => Err(EvalError::no_overload()),
            Kind::Loop(loop_) => self.loop_(loop_),
        }
    }

    fn ident(&mut self, name: &str) -> Result<Val, EvalError> {
        self.charge(1)?;
        if let Some((_, value)) = self.variables.iter().rev().find(|(held, _)| &**held == name) {
            return Ok(value.clone());
        }
        if named_type(name).is_some() {
            return Ok(Val::text(name)).map(|value| match value {
                Val::String(name) => Val::Type(name),
                other => other,
            });
        }
        Err(EvalError::error(format!("no such attribute(s): {name}")))
    }

    fn select(&mut self, operand: &Expr, field: &str, test: bool) -> Result<Val, EvalError> {
        let operand = self.eval(operand)?;
        if test {
            let operand = match &operand {
                Val::Optional(None) => return Ok(Val::Bool(false)),
                Val::Optional(Some(value)) => value,
                other => other,
            };
            return Ok(Val::Bool(field_of(operand, field)?.is_some()));
        }
        self.charge(1)?;
        match &operand {
            Val::Optional(None) => Ok(operand),
            Val::Optional(Some(value)) => Ok(Val::Optional(field_of(value, field)?.map(Box::new))),
            value => {
                let found = field_of(value, field)?;
                found.ok_or_else(|| EvalError::error(format!("no such key: {field}")))
            }
        }
    }

    fn optional_select(&mut self, operand: &Expr, field: &str) -> Result<Val, EvalError> {
        let operand = self.eval(operand)?;
        self.charge(1)?;
        match &operand {
            Val::Optional(None) => Ok(operand),
            Val::Optional(Some(value)) => Ok(Val::Optional(field_of(value, field)?.map(Box::new))),
            value => Ok(Val::Optional(field_of(value, field)?.map(Box::new))),
        }
    }

    fn call(
        &mut self,
        function: &str,
        target: Option<&Expr>,
        args: &[Expr],
    ) -> Result<Val, EvalError> {
        match (function, args) {
            ("_&&_", [a, b]) => return self.logic(a, b, false),
            ("_||_", [a, b]) => return self.logic(a, b, true),
            ("_?_:_", [condition, a, b]) => {
                return match self.eval(condition)? {
                    Val::Bool(true) => self.eval(a),
                    Val::Bool(false) => self.eval(b),
                    _ => Err(EvalError::no_overload()),
                };
            }
            ("or" | "orValue", [other]) => {
                let Some(target) = target else { return Err(EvalError::no_overload()) };
                self.charge(1)?;
                return match (self.eval(target)?, function) {
                    (value @ Val::Optional(Some(_)), "or") => Ok(value),
                    (Val::Optional(Some(value)), _) => Ok(*value),
                    (Val::Optional(None), _) => self.eval(other),
                    _ => Err(EvalError::no_overload()),
                };
            }
            _ => {}
        }
        let target = match target {
            Some(target) => Some(self.eval(target)?),
            None => None,
        };
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        call::call(self, function, target.as_ref(), &values)
    }

    /// `&&` and `||`: an operand that decides the result hides an error of the other.
    fn logic(&mut self, a: &Expr, b: &Expr, decisive: bool) -> Result<Val, EvalError> {
        let truth = |value: Result<Val, EvalError>| match value {
            Ok(Val::Bool(flag)) => Ok(flag),
            Ok(_) => Err(EvalError::no_overload()),
            Err(stop) => Err(stop),
        };
        let first = truth(self.eval(a));
        if first == Err(EvalError::Cost) {
            return Err(EvalError::Cost);
        }
        if first == Ok(decisive) {
            return Ok(Val::Bool(decisive));
        }
        let second = truth(self.eval(b));
        match (first, second) {
            (_, Err(EvalError::Cost)) => Err(EvalError::Cost),
            (_, Ok(flag)) if flag == decisive => Ok(Val::Bool(decisive)),
            (Err(stop), _) | (_, Err(stop)) => Err(stop),
            _ => Ok(Val::Bool(!decisive)),
        }
    }

    fn list(&mut self, items: &[Item]) -> Result<Val, EvalError> {
        self.charge(10)?;
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match (self.eval(&item.value)?, item.optional) {
                (Val::Optional(Some(value)), true) => values.push(*value),
                (Val::Optional(None), true) => {}
                (value, _) => values.push(value),
            }
        }
        Ok(Val::list(values))
    }

    fn map(&mut self, entries: &[Entry]) -> Result<Val, EvalError> {
        self.charge(30)?;
        let mut map = BTreeMap::new();
        for entry in entries {
            let key = self.eval(&entry.key)?;
            let key = Key::new(&key).ok_or_else(|| EvalError::error("unsupported key type"))?;
            match (self.eval(&entry.value)?, entry.optional) {
                (Val::Optional(Some(value)), true) => drop(map.insert(key, *value)),
                (Val::Optional(None), true) => {}
                (value, _) => drop(map.insert(key, value)),
            }
        }
        Ok(Val::Map(Arc::new(map)))
    }

    fn loop_(&mut self, loop_: &Loop) -> Result<Val, EvalError> {
        let range = self.eval(&loop_.range)?;
        match loop_.kind {
            LoopKind::OptionalMap | LoopKind::OptionalFlatMap => self.optional_map(loop_, range),
            LoopKind::All => self.quantify(loop_, &range, false),
            LoopKind::Exists => self.quantify(loop_, &range, true),
            LoopKind::ExistsOne => self.exists_one(loop_, &range),
            LoopKind::List => self.collect_list(loop_, &range),
            LoopKind::Map | LoopKind::MapEntry => self.collect_map(loop_, &range),
            LoopKind::SortBy => self.sort_by(loop_, &range),
        }
    }

    /// Returns the values of a loop's variables for each round.
    fn rounds(&mut self, loop_: &Loop, range: &Val) -> Result<Vec<(Val, Option<Val>)>, EvalError> {
        self.charge(range.size() / 10)?;
        let two = loop_.second.is_some();
        Ok(match range {
            Val::List(list) if two => {
                let items = list.items.iter().zip(0_i64..);
                items.map(|(item, index)| (Val::Int(index), Some(item.clone()))).collect()
            }
            Val::List(list) => list.items.iter().map(|item| (item.clone(), None)).collect(),
            Val::Map(map) => {
                let entries = map.iter();
                entries.map(|(key, value)| (key.value(), two.then(|| value.clone()))).collect()
            }
            Val::Object(object) => {
                let fields = object.fields.iter();
                fields.map(|(name, value)| (Val::text(name), two.then(|| value.clone()))).collect()
            }
            _ => return Err(EvalError::no_overload()),
        })
    }

    /// Evaluates an expression in one round of a loop.
    fn within(
        &mut self,
        loop_: &Loop,
        round: (Val, Option<Val>),
        expr: &Expr,
    ) -> Result<Val, EvalError> {
        let depth = self.variables.len();
        self.variables.push((loop_.variable.as_str().into(), round.0));
        if let (Some(name), Some(value)) = (&loop_.second, round.1) {
            self.variables.push((name.as_str().into(), value));
        }
        let value = self.eval(expr);
        self.variables.truncate(depth);
        value
    }

    /// `all` and `exists`: an item that decides the result hides errors of others.
    fn quantify(&mut self, loop_: &Loop, range: &Val, decisive: bool) -> Result<Val, EvalError> {
        let mut failed = None;
        for round in self.rounds(loop_, range)? {
            self.charge(if decisive { 4 } else { 3 })?;
            match self.within(loop_, round, &loop_.body) {
                Ok(Val::Bool(flag)) if flag == decisive => return Ok(Val::Bool(decisive)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => failed = failed.or(Some(EvalError::no_overload())),
                Err(EvalError::Cost) => return Err(EvalError::Cost),
                Err(stop) => failed = failed.or(Some(stop)),
            }
        }
        self.charge(1)?;
        match failed {
            Some(stop) => Err(stop),
            None => Ok(Val::Bool(!decisive)),
        }
    }

    fn exists_one(&mut self, loop_: &Loop, range: &Val) -> Result<Val, EvalError> {
        let mut found = 0;
        for round in self.rounds(loop_, range)? {
            self.charge(2)?;
            match self.within(loop_, round, &loop_.body)? {
                Val::Bool(flag) => found += u64::from(flag),
                _ => return Err(EvalError::no_overload()),
            }
        }
        Ok(Val::Bool(found == 1))
    }

    /// Whether the item passes the filter of a loop.
    fn passes(&mut self, loop_: &Loop, round: &(Val, Option<Val>)) -> Result<bool, EvalError> {
        let Some(filter) = &loop_.filter else { return Ok(true) };
        self.charge(1)?;
        match self.within(loop_, round.clone(), filter)? {
            Val::Bool(flag) => Ok(flag),
            _ => Err(EvalError::no_overload()),
        }
    }

    fn collect_list(&mut self, loop_: &Loop, range: &Val) -> Result<Val, EvalError> {
        let mut items = Vec::new();
        for round in self.rounds(loop_, range)? {
            if self.passes(loop_, &round)? {
                self.charge(12)?;
                items.push(self.within(loop_, round, &loop_.body)?);
            }
        }
        self.charge(1)?;
        Ok(Val::list(items))
    }

    fn collect_map(&mut self, loop_: &Loop, range: &Val) -> Result<Val, EvalError> {
        let mut map = BTreeMap::new();
        let mut insert = |key: Key, value: Val| {
            let text = format!("insert failed: key {} already exists", show(&key.value()));
            match map.insert(key, value) {
                None => Ok(()),
                Some(_) => Err(EvalError::error(text)),
            }
        };
        let bad_key = || EvalError::error("unsupported key type");
        for round in self.rounds(loop_, range)? {
            if !self.passes(loop_, &round)? {
                continue;
            }
            self.charge(3)?;
            let key = Key::new(&round.0);
            let value = self.within(loop_, round, &loop_.body)?;
            match (loop_.kind, value) {
                (LoopKind::MapEntry, Val::Map(entries)) => {
                    self.charge(entries.len() as u64)?;
                    for (key, value) in entries.iter() {
                        insert(key.clone(), value.clone())?;
                    }
                }
                (LoopKind::MapEntry, _) => return Err(EvalError::no_overload()),
                (_, value) => insert(key.ok_or_else(bad_key)?, value)?,
            }
        }
        Ok(Val::Map(Arc::new(map)))
    }

    fn sort_by(&mut self, loop_: &Loop, range: &Val) -> Result<Val, EvalError> {
        let mut keyed = Vec::new();
        for round in self.rounds(loop_, range)? {
            self.charge(12)?;
            let item = round.0.clone();
            keyed.push((self.within(loop_, round, &loop_.body)?, item));
        }
        call::check_sortable(keyed.iter().map(|(key, _)| key))?;
        self.charge(keyed.iter().map(|(key, _)| key.weight()).sum())?;
        keyed.sort_by(|a, b| a.0.compare(&b.0).unwrap_or(std::cmp::Ordering::Equal));
        Ok(Val::list(keyed.into_iter().map(|(_, item)| item).collect()))
    }

    fn optional_map(&mut self, loop_: &Loop, range: Val) -> Result<Val, EvalError> {
        self.charge(2)?;
        let value = match range {
            Val::Optional(Some(value)) => *value,
            Val::Optional(None) => return Ok(Val::Optional(None)),
            _ => return Err(EvalError::no_overload()),
        };
        let value = self.within(loop_, (value, None), &loop_.body)?;
        match loop_.kind {
            LoopKind::OptionalMap => Ok(Val::Optional(Some(Box::new(value)))),
            _ => Ok(value),
        }
    }
}

/// Returns a field of a value, if it is present.
fn field_of(value: &Val, field: &str) -> Result<Option<Val>, EvalError> {
    match value {
        Val::Object(object) => Ok(object.fields.get(field).cloned()),
        Val::Map(map) => Ok(map.get(&Key::String(field.into())).cloned()),
        _ => Err(EvalError::no_overload()),
    }
}

/// Formats a value for messages.
pub(super) fn show(value: &Val) -> String {
    match value {
        Val::String(text) => text.to_string(),
        Val::Int(number) => number.to_string(),
        Val::Uint(number) => number.to_string(),
        Val::Double(number) => number.to_string(),
        Val::Bool(flag) => flag.to_string(),
        Val::Null => "null".to_owned(),
        other => other.type_name(),
    }
}
