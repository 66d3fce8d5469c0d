//! A place in an object: `spec.replicas`, `data['tls.crt']`, `spec.containers[0].image`.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

/// A path of fields, and of elements of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Element(usize),
}

/// What is wrong with a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It cannot be read.
    #[error("{0:?} is not a path: write data.color, data['tls.crt'] or items[0].name")]
    Invalid(String),
    /// Something on the way has no fields.
    #[error("{path:?} cannot be set: {field:?} would be a field of something that has none")]
    NoFields {
        /// The path.
        path: String,
        /// The first field that cannot be there.
        field: String,
    },
    /// It leads into a list.
    #[error("{0:?} cannot be set: it leads into a list, and only a whole list can be set")]
    Element(String),
}

impl Path {
    /// The value at this place, if there is one.
    pub fn find<'v>(&self, within: &'v Value) -> Option<&'v Value> {
        self.steps.iter().try_fold(within, |value, step| match step {
            Step::Field(field) => value.get(field),
            Step::Element(number) => value.get(number),
        })
    }

    /// Puts a value there. Objects on the way are made.
    ///
    /// # Errors
    /// Returns an error if something else than an object is on the way.
    pub fn set(&self, within: &mut Value, value: Value) -> Result<(), PathError> {
        let mut place = within;
        for step in &self.steps {
            let Step::Field(field) = step else {
                return Err(PathError::Element(self.text.clone()));
            };
            if place.is_null() {
                *place = json!({});
            }
            let Value::Object(fields) = place else {
                return Err(PathError::NoFields { path: self.text.clone(), field: field.clone() });
            };
            place = fields.entry(field.as_str()).or_insert(Value::Null);
        }
        *place = value;
        Ok(())
    }

    /// The field that is this step of it, counted from zero.
    pub fn field(&self, step: usize) -> Option<&str> {
        match self.steps.get(step)? {
            Step::Field(field) => Some(field),
            Step::Element(_) => None,
        }
    }
}

impl FromStr for Path {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let invalid = || PathError::Invalid(text.to_owned());
        let (mut steps, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            let (step, after) = if let Some(quoted) = rest.strip_prefix("['") {
                let (field, after) = quoted.split_once("']").ok_or_else(invalid)?;
                (Step::Field(field.to_owned()), after)
            } else if let Some(number) = rest.strip_prefix('[') {
                let (number, after) = number.split_once(']').ok_or_else(invalid)?;
                (Step::Element(number.parse().map_err(|_| invalid())?), after)
            } else {
                // A dot is between two fields, and not before the first.
                let is_first = steps.is_empty();
                let field = if is_first { Some(rest) } else { rest.strip_prefix('.') };
                let field = field.ok_or_else(invalid)?;
                let (field, after) = field.split_at(field.find(['.', '[']).unwrap_or(field.len()));
                (Step::Field(field.to_owned()), after)
            };
            if step == Step::Field(String::new()) {
                return Err(invalid());
            }
            steps.push(step);
            rest = after;
        }
        if steps.is_empty() { Err(invalid()) } else { Ok(Self { text: text.to_owned(), steps }) }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        text.parse().expect("a path")
    }

    #[test]
    fn value_is_found_by_fields_and_elements() {
        let object = json!({"data": {"a.b": "1"}, "list": [{"name": "x"}, {"name": "y"}]});
        assert_eq!(path("data['a.b']").find(&object), Some(&json!("1")));
        assert_eq!(path("list[1].name").find(&object), Some(&json!("y")));
        for nothing in ["data.a", "list[2]", "list.name", "data['a.b'].c", "data[0]"] {
            assert_eq!(path(nothing).find(&object), None, "{nothing}");
        }
    }

    #[test]
    fn value_is_set_beside_others_and_objects_are_made() {
        let mut object = json!({"data": {"a": "1"}});
        for text in ["top", "data.b", "data['tls.crt']", "new.sub.field"] {
            path(text).set(&mut object, json!("2")).expect("set");
        }
        let expected = json!({
            "top": "2",
            "data": {"a": "1", "b": "2", "tls.crt": "2"},
            "new": {"sub": {"field": "2"}},
        });
        assert_eq!(object, expected);
        let error = path("data.a.c").set(&mut object, json!("3")).expect_err("a is a text");
        assert_eq!(
            error,
            PathError::NoFields { path: "data.a.c".to_owned(), field: "c".to_owned() }
        );
        assert!(matches!(path("l[0]").set(&mut object, json!(1)), Err(PathError::Element(_))));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["", ".", ".a", "a.", "a..b", "a[", "a[x]", "a['b'", "['']", "a[-1]", "a[0]b"] {
            assert_eq!(text.parse::<Path>(), Err(PathError::Invalid(text.to_owned())), "{text}");
        }
    }
}
