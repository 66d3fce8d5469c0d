//! Selects the objects of a list, a watch or a deletecollection.

use crate::failure::Failure;
use crate::kind::Kind;
use crate::object::{Key, Stored};
use crate::query::Query;
use crate::selector::field::FieldSelector;
use crate::selector::label::LabelSelector;
use crate::target::Target;

/// Selects objects by namespace, name, labels and fields.
#[derive(Debug, Clone)]
pub(crate) struct Filter {
    namespace: String,
    labels: LabelSelector,
    fields: FieldSelector,
    /// The name in the path of the request, if there is one.
    name: String,
    /// The kind's selectable fields, in the order of [`Stored::fields`].
    selectable: Vec<String>,
}

impl Filter {
    /// Parses the selectors of a request. `storage` is the kind that holds the objects, which may
    /// differ from the kind of the target.
    pub(crate) fn new(target: &Target, storage: &Kind, query: &Query) -> Result<Self, Failure> {
        let labels = LabelSelector::parse(&query.label_selector).map_err(Failure::bad_request)?;
        let mut fields =
            FieldSelector::parse(&query.field_selector).map_err(Failure::bad_request)?;
        for term in &mut fields.terms {
            let stored = target.kind.field_label(target.version(), &term.path);
            term.path = stored.map_err(Failure::bad_request)?.into();
        }
        Ok(Self {
            namespace: target.namespace.clone(),
            labels,
            fields,
            name: target.name.clone(),
            selectable: storage.selectable(),
        })
    }

    /// Returns whether there are no selectors, so that the number of remaining objects is known.
    pub(crate) fn selects_all(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn matches(&self, key: &Key, object: &Stored) -> bool {
        (self.namespace.is_empty() || key.namespace() == self.namespace)
            && (self.name.is_empty() || key.name() == self.name)
            && self.labels.matches(&object.labels)
            && self.fields.matches(|path| match path {
                "metadata.name" => Some(key.name()),
                "metadata.namespace" => Some(key.namespace()),
                path => {
                    let at = self.selectable.iter().position(|field| field == path)?;
                    object.fields.get(at).map(|value| &**value)
                }
            })
    }
}
