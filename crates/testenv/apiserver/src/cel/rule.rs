//! One rule: compiled when its definition is accepted, evaluated on every write.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::ast::Expr;
use super::check::{self, Checked};
use super::eval::Evaluation;
use super::issue::{self, Issue};
use super::parse;
use super::stop::EvalError;
use super::types::Type;
use super::value::Val;
use crate::field_error::{FieldError, REQUIRED};

/// The longest result of a message expression, in bytes.
const MESSAGE_MAX: usize = 5 * 1024;

/// An entry of `x-kubernetes-validations`.
#[derive(Debug)]
pub(super) struct Rule {
    /// The source of the rule.
    source: String,
    message: String,
    reason: Option<String>,
    /// The field of the error, relative to the place of the rule.
    field_path: String,
    pub(super) optional_old: bool,
    pub(super) uses_old: bool,
    message_expression: String,
    program: Result<Expr, String>,
    /// `None` if there is no message expression, or if it does not compile.
    message_program: Option<Expr>,
}

/// The values that rules are evaluated on.
pub(super) struct RuleInput {
    pub(super) new: Result<Val, String>,
    /// `None` if there is no old value.
    pub(super) old: Option<Result<Val, String>>,
}

/// The result of evaluating a rule.
pub(super) enum RuleOutcome {
    Passed,
    /// The rule is not met. Has the message.
    Failed(String),
    /// The rule cannot be evaluated. The next rules still are.
    EvaluationFailed(String),
    /// The budget or the cost limit is exceeded. No further rules are evaluated.
    BudgetExceeded(String),
}

impl Rule {
    /// Compiles a rule for values of this type. Also returns the compile errors of the rule and of
    /// its message expression.
    pub(super) fn compile(
        entry: &Json,
        self_type: &Type,
        field_path: String,
    ) -> (Self, CompileErrors) {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let optional_old = entry["optionalOldSelf"] == true;
        let old_type =
            if optional_old { Type::optional(self_type.clone()) } else { self_type.clone() };
        let variables = || {
            BTreeMap::from([
                ("self".to_owned(), self_type.clone()),
                ("oldSelf".to_owned(), old_type.clone()),
            ])
        };
        let source = text("rule");
        let mut faults = CompileErrors::default();
        let mut uses_old = false;
        let program = compile(&source, variables())
            .map_err(|issues| format!("compilation failed: {issues}"))
            .and_then(|(program, checked)| {
                uses_old = checked.uses_old;
                if checked.result == Type::Bool {
                    Ok(program)
                } else {
                    Err("cel expression must evaluate to a bool".to_owned())
                }
            });
        faults.rule = program.as_ref().err().cloned();
        let message_source = text("messageExpression");
        let mut message_program = None;
        if !message_source.is_empty() && program.is_ok() {
            match compile(&message_source, variables()) {
                Err(issues) => {
                    faults.message =
                        Some(format!("messageExpression compilation failed: {issues}"));
                }
                Ok((_, checked)) if checked.result != Type::String => {
                    faults.message = Some("messageExpression must evaluate to a string".to_owned());
                }
                Ok((program, _)) => message_program = Some(program),
            }
        }
        let rule = Self {
            source,
            message: text("message"),
            reason: entry["reason"].as_str().map(str::to_owned),
            field_path,
            optional_old,
            uses_old,
            message_expression: message_source,
            program,
            message_program,
        };
        (rule, faults)
    }

    /// Evaluates the rule, and charges its cost to `budget`.
    pub(super) fn evaluate(&self, bound: &RuleInput, budget: &mut u64) -> RuleOutcome {
        let program = match &self.program {
            Ok(program) => program,
            Err(why) => return RuleOutcome::EvaluationFailed(format!("rule compile error: {why}")),
        };
        let name = self.name();
        let mut run = match bound.evaluation(self.uses_old, self.optional_old) {
            Ok(run) => run,
            Err(why) => {
                return RuleOutcome::EvaluationFailed(format!("{why} evaluating rule: {name}"));
            }
        };
        let result = run.eval(program);
        let Some(rest) = budget.checked_sub(run.cost) else {
            return RuleOutcome::BudgetExceeded(out_of_budget());
        };
        *budget = rest;
        match result {
            Ok(Val::Bool(true)) => RuleOutcome::Passed,
            Ok(_) => self.failed(bound, budget),
            Err(EvalError::Cost) => RuleOutcome::BudgetExceeded(format!(
                "'operation cancelled: actual cost limit exceeded': no further validation rules will \
                 be run due to call cost exceeds limit for rule: {name}"
            )),
            Err(EvalError::Error(why)) if why.starts_with("no such overload") => {
                RuleOutcome::EvaluationFailed(format!(
                    "'{why}': call arguments did not match a supported operator, function or macro \
                     signature for rule: {name}"
                ))
            }
            Err(EvalError::Error(why)) => {
                RuleOutcome::EvaluationFailed(format!("{why} evaluating rule: {name}"))
            }
        }
    }

    /// Returns the verdict for a rule that is not met, with its message.
    fn failed(&self, bound: &RuleInput, budget: &mut u64) -> RuleOutcome {
        let plain = || {
            let message = self.message.trim();
            if message.is_empty() {
                format!("failed rule: {}", self.name())
            } else {
                message.to_owned()
            }
        };
        let Some(program) = &self.message_program else { return RuleOutcome::Failed(plain()) };
        // The real server does not wrap the old value in an optional here.
        let Ok(mut run) = bound.evaluation(bound.old.is_some(), false) else {
            return RuleOutcome::Failed(plain());
        };
        let result = run.eval(program);
        let Some(rest) = budget.checked_sub(run.cost) else {
            return RuleOutcome::BudgetExceeded(format!(
                "messageExpression evaluation failed due to {}",
                budget_exceeded_text()
            ));
        };
        *budget = rest;
        match result {
            Err(EvalError::Cost) => RuleOutcome::BudgetExceeded(format!(
                "no further validation rules will be run due to call cost exceeds limit for \
                 messageExpression: {:?}",
                self.message_expression
            )),
            Ok(Val::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MESSAGE_MAX && !text.contains('\n');
                RuleOutcome::Failed(if usable { text.to_owned() } else { plain() })
            }
            _ => RuleOutcome::Failed(plain()),
        }
    }

    /// Returns the name of the rule in errors: its message, or its source.
    fn name(&self) -> &str {
        let message = self.message.trim();
        if message.is_empty() { self.source.trim() } else { message }
    }

    /// Returns the error for a value that does not meet the rule.
    pub(super) fn error(&self, path: &str, value: Option<&Json>, detail: &str) -> FieldError {
        let field = match (path, self.field_path.as_str()) {
            (path, "") => super::or_nil(path),
            ("", inner) => inner.to_owned(),
            (path, inner) => format!("{path}.{inner}"),
        };
        match (self.reason.as_deref(), value) {
            (Some("FieldValueForbidden"), _) => FieldError::forbidden(field, detail),
            (Some(REQUIRED), _) => FieldError::required(field, detail),
            (Some("FieldValueDuplicate"), Some(value)) => FieldError::duplicate(field, value),
            (Some("FieldValueDuplicate"), None) => FieldError::duplicate_unshown(field),
            (_, Some(value)) => FieldError::invalid(field, value, detail),
            (_, None) => FieldError::invalid_unshown(field, detail),
        }
    }
}

/// The compile errors of a rule and of its message expression.
#[derive(Debug, Default)]
pub(super) struct CompileErrors {
    pub(super) rule: Option<String>,
    pub(super) message: Option<String>,
}

impl RuleInput {
    fn evaluation(&self, with_old: bool, optional: bool) -> Result<Evaluation, String> {
        let mut variables: Vec<(Arc<str>, Val)> = vec![("self".into(), self.new.clone()?)];
        if with_old {
            match (&self.old, optional) {
                (None, false) => {}
                (None, true) => variables.push(("oldSelf".into(), Val::Optional(None))),
                (Some(old), true) => {
                    variables.push(("oldSelf".into(), Val::Optional(Some(Box::new(old.clone()?)))));
                }
                (Some(old), false) => variables.push(("oldSelf".into(), old.clone()?)),
            }
        }
        Ok(Evaluation::new(variables))
    }
}

/// Returns the error text for an exhausted budget.
pub(super) fn out_of_budget() -> String {
    format!("validation failed due to {}", budget_exceeded_text())
}

fn budget_exceeded_text() -> &'static str {
    "running out of cost budget, no further validation rules will be run"
}

/// Parses and checks an expression. The error is the text that cel-go prints.
pub(super) fn compile(
    source: &str,
    variables: BTreeMap<String, Type>,
) -> Result<(Expr, Checked), String> {
    let mut program = parse::parse(source).map_err(|issues| issue::describe(&issues, source))?;
    let checked = check::check(&mut program, variables);
    if checked.errors.is_empty() {
        return Ok((program, checked));
    }
    let places = parse::places(source);
    let issues: Vec<Issue> = checked
        .errors
        .iter()
        .map(|(id, text)| Issue { place: places.of(*id, source), text: text.clone() })
        .collect();
    Err(issue::describe(&issues, source))
}
