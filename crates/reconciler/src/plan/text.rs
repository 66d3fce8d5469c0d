//! A plan as people read it.

use std::fmt;

use super::{Effect, FieldChange, Plan, PlannedWrite};

/// Longer values are cut: the JSON form has all of them.
const VALUE_MAX: usize = 120;

impl fmt::Display for Plan {
    /// One line for each object, and one for each of its fields that would change:
    ///
    /// ```text
    /// controller website: 2 runs, 1 would write
    ///   default/shop
    ///     ~ deployments.apps default/shop
    ///         spec.replicas: 2 -> 3
    ///     + services default/shop
    /// ```
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "controller {}: ", self.controller)?;
        if self.is_skipped {
            return writeln!(f, "left out, because it is InPlan::Skip");
        }
        let writing = self.runs.iter().filter(|run| !run.writes.is_empty()).count();
        write!(f, "{} runs, {writing} would write", self.runs_total)?;
        match self.failed() {
            0 => writeln!(f)?,
            failed => writeln!(f, ", {failed} failed")?,
        }
        for run in &self.runs {
            writeln!(f, "  {}", run.key)?;
            for write in &run.writes {
                write!(f, "{write}")?;
            }
            if let Some(error) = &run.error {
                writeln!(f, "    ! failed, so it might write more: {error}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for PlannedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.effect {
            Effect::Create => '+',
            Effect::Change { .. } => '~',
            Effect::Delete | Effect::DeleteCollection => '-',
            Effect::Unknown { .. } => '?',
        };
        write!(f, "    {sign} {}", self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        match (&self.key, &self.effect) {
            (Some(key), _) => write!(f, " {key}")?,
            (None, Effect::DeleteCollection) => write!(f, " (all that are selected)")?,
            (None, _) => write!(f, " (named by the server)")?,
        }
        match &self.effect {
            Effect::Change { fields } => {
                writeln!(f)?;
                fields.iter().try_for_each(|field| writeln!(f, "        {field}"))
            }
            Effect::Unknown { reason } => writeln!(f, ": {reason}"),
            Effect::Create | Effect::Delete | Effect::DeleteCollection => writeln!(f),
        }
    }
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |value: &serde_json::Value| {
            let mut text = value.to_string();
            if text.len() > VALUE_MAX {
                text.truncate(text.floor_char_boundary(VALUE_MAX));
                text.push('…');
            }
            text
        };
        write!(f, "{}: ", self.path)?;
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "{} -> {}", short(old), short(new)),
            (Some(old), None) => write!(f, "{} is removed", short(old)),
            (None, Some(new)) => write!(f, "{} is added", short(new)),
            (None, None) => Ok(()),
        }
    }
}
