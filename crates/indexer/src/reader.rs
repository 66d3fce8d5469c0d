//! Reading a store without types: one object, a snapshot, a selection of objects.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::error::IndexError;
use crate::index::{Index, IndexPosition, IndexValue, LookUp};
use crate::key::KeyRef;
use crate::object::Object;
use crate::parser::HeadParser;
use crate::selector::Selector;
use crate::shared::{IndexTree, Shared, Trees};

/// A handle for reading a store, cheap to clone. [`lister`](Self::lister) reads typed objects.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// A store at one moment. It is cheap to take. It keeps its objects alive as long as it lives.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub(crate) trees: Arc<Trees>,
}

/// Some objects of a snapshot, in the order of their keys. Nothing is looked up or copied until it
/// is iterated over.
#[derive(Clone, Debug)]
pub struct Selection {
    trees: Arc<Trees>,
    /// An index and one of its values; `None` for all objects.
    by_index: Option<(usize, Box<str>)>,
    /// `None` for all namespaces.
    namespace: Option<Box<str>>,
    selector: Selector,
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The object with a key.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<Object>> {
        self.shared.map.get(key.into())
    }

    /// The store at this moment.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { trees: Arc::clone(&*self.shared.trees.read()) }
    }

    /// A parser whose heads share texts with this store.
    pub fn head_parser(&self) -> HeadParser {
        HeadParser::new(self.shared.interner.clone())
    }

    /// Puts an object into a snapshot of this store, in the place of the one with the same key, and
    /// in the form in which the store would hold it. The store and other snapshots do not get it.
    ///
    /// ```
    /// use windlass_indexer::{Object, Store};
    ///
    /// let store = Store::new();
    /// let (reader, bytes) = (store.reader(), br#"{"metadata":{"name":"web"}}"#);
    /// let mut snapshot = reader.snapshot();
    /// let head = reader.head_parser().parse(bytes)?;
    /// reader.put_into(&mut snapshot, Object::new(head, &bytes[..]));
    /// assert!(snapshot.get("web").is_some() && reader.is_empty());
    /// # Ok::<(), windlass_indexer::HeadError>(())
    /// ```
    ///
    /// An index that cannot read the object does not have it. The status does not list it.
    pub fn put_into(&self, snapshot: &mut Snapshot, object: Object) {
        // Indexes are user code and may panic, so they run before anything changes. They read the
        // bytes before a resident layout drops them.
        let indexes = snapshot.trees.indexes.iter();
        let values: Vec<_> =
            indexes.map(|tree| tree.index.read(&object).unwrap_or_default()).collect();
        let object = self.shared.in_layout(Arc::new(object));
        // The trees are persistent: this copies the nodes on its path, and shares the rest.
        Arc::make_mut(&mut snapshot.trees).put(&object, &values);
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.shared.trees.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Snapshot {
    /// The object with a key. It searches the tree; [`Reader::get`] is faster.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Arc<Object>> {
        self.trees.objects.get(key.into()).map(|stored| &stored.object)
    }

    /// Removes an object from this snapshot and returns it. The store keeps it.
    pub fn remove<'k>(&mut self, key: impl Into<KeyRef<'k>>) -> Option<Arc<Object>> {
        let key = key.into();
        self.get(key)?;
        Arc::make_mut(&mut self.trees).delete(key)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.trees.objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects.
    pub fn all(&self) -> Selection {
        self.selection(None)
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// If the store had no such index at the moment of the snapshot, or no [`ByLabel`] index that
    /// has the label.
    ///
    /// [`ByLabel`]: crate::ByLabel
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<Selection, IndexError> {
        let text = value.index_text();
        let number = self.trees.index_number::<I>(&text)?;
        Ok(self.selection(Some((number, text.into()))))
    }

    /// The values that objects have in an index, as [texts](IndexValue::index_text), in order and
    /// each once; of several [`ByLabel`](crate::ByLabel) indexes, those of all labels that they
    /// have. It takes as long as there are values, however many objects have them.
    ///
    /// # Errors
    /// If the store had no such index at the moment of the snapshot.
    pub fn index_values<I: Index>(&self) -> Result<Vec<Arc<str>>, IndexError> {
        let mut values = BTreeSet::new();
        for IndexTree { entries, .. } in self.trees.indexes_of::<I>()? {
            let mut next = entries.iter().next();
            while let Some(entry) = next {
                // No text is between a text and the same one with a zero byte at its end.
                let after = format!("{}\0", entry.value);
                values.insert(Arc::clone(&entry.value));
                next = entries.from(IndexPosition { value: &after, key: None }).next();
            }
        }
        Ok(values.into_iter().collect())
    }

    fn selection(&self, by_index: Option<(usize, Box<str>)>) -> Selection {
        let (trees, selector) = (Arc::clone(&self.trees), Selector::everything());
        Selection { trees, by_index, namespace: None, selector }
    }
}

impl Selection {
    /// Restricts the selection to a namespace. A second namespace replaces the first. The objects
    /// of a namespace are neighbours, also in an index, so no others are looked at.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Restricts the selection by labels. A second selector replaces the first. If there is a
    /// [`ByLabel`](crate::ByLabel) index for a label that must have one value, only the objects
    /// with that value are looked at.
    #[must_use]
    pub fn matching(mut self, selector: &Selector) -> Self {
        self.selector = selector.clone();
        self
    }

    /// Iterates over the objects.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.into_iter()
    }

    /// An index and a value of it that contain everything that the selector selects.
    fn label_index(&self) -> Option<(usize, Cow<'static, str>)> {
        self.selector.exact().find_map(|pair| {
            let covers = |tree: &IndexTree| tree.index.covers_label(pair.0);
            let number = self.trees.indexes.iter().position(covers)?;
            Some((number, Cow::Owned(pair.index_text().into_owned())))
        })
    }
}

impl<'a> IntoIterator for &'a Selection {
    type Item = &'a Arc<Object>;
    type IntoIter = Box<dyn Iterator<Item = &'a Arc<Object>> + Send + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        let Trees { objects, indexes } = &*self.trees;
        let namespace = self.namespace.as_deref();
        // Before all keys of the namespace.
        let start = namespace.map(|namespace| KeyRef::new(Some(namespace), ""));
        let by_index =
            self.by_index.as_ref().map(|(number, value)| (*number, value.as_ref().into()));
        let objects: Self::IntoIter = match (by_index.or_else(|| self.label_index()), start) {
            (Some((number, value)), key) => {
                let entries = indexes[number].entries.from(IndexPosition { value: &value, key });
                let entries = entries.take_while(move |entry| *entry.value == *value);
                Box::new(entries.map(|entry| &entry.object))
            }
            (None, Some(key)) => Box::new(objects.from(key).map(|stored| &stored.object)),
            (None, None) => Box::new(objects.iter().map(|stored| &stored.object)),
        };
        // Entries are ordered by namespace, so the first foreign one ends the selection.
        let is_inside = move |object: &&Arc<Object>| {
            namespace.is_none() || object.head().namespace() == namespace
        };
        let is_selected = |object: &&Arc<Object>| self.selector.matches(object.head().labels());
        Box::new(objects.take_while(is_inside).filter(is_selected))
    }
}
