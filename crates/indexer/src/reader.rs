//! Reading a store without types: one object, a snapshot, a selection of objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::IndexError;
use crate::index::{Index, IndexEntry, IndexValue, LookUp, Place};
use crate::key::KeyRef;
use crate::object::Object;
use crate::selector::Selector;
use crate::shared::{IndexTree, Shared, Trees};
use crate::tree::Iter;

/// A handle for reading a store, cheap to clone. [`lister`](Self::lister) reads typed objects.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// A store at one moment. It is cheap to take. It keeps its objects alive as long as it lives.
#[derive(Clone, Debug)]
pub struct Snapshot {
    trees: Arc<Trees>,
}

/// Some objects of a snapshot, in the order of their keys. Nothing is looked up or copied until it
/// is iterated over.
#[derive(Clone, Debug)]
pub struct Selection {
    trees: Arc<Trees>,
    part: Part,
    selector: Selector,
    /// An index and a value of it that contain everything that the selector selects.
    shortcut: Option<(usize, Box<str>)>,
}

/// The part of a snapshot that is iterated over.
#[derive(Clone, Debug)]
enum Part {
    All,
    Namespace(Box<str>),
    /// The entries of one value of an index.
    Index(usize, Box<str>),
}

/// Iterates over the objects of a selection.
pub struct Objects<'a> {
    walk: Walk<'a>,
    selector: &'a Selector,
}

enum Walk<'a> {
    /// All objects, or those of a namespace.
    Objects(Iter<'a, Arc<Object>>, Option<&'a str>),
    /// The entries of one value.
    Index(Iter<'a, IndexEntry>, &'a str),
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

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.shared.trees.read().objects.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all objects take, as counted by [`Object::allocated_bytes`].
    pub fn object_bytes(&self) -> usize {
        self.shared.object_bytes.load(Ordering::Relaxed)
    }
}

impl Snapshot {
    /// The object with a key. It searches the tree; [`Reader::get`] is faster.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Arc<Object>> {
        self.trees.objects.get(key.into())
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
        self.part(Part::All)
    }

    /// The objects of a namespace. They are neighbours in the order of keys, so no index is needed.
    pub fn in_namespace(&self, namespace: &str) -> Selection {
        self.part(Part::Namespace(namespace.into()))
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// If the store had no such index at the moment of the snapshot.
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<Selection, IndexError> {
        let number = self.trees.index_number::<I>()?;
        Ok(self.part(Part::Index(number, value.index_text().into())))
    }

    /// The objects that a selector selects. If there is a [`ByLabel`](crate::ByLabel) index for a
    /// label that must have one value, only the objects with that value are looked at.
    pub fn select(&self, selector: &Selector) -> Selection {
        self.all().matching(selector)
    }

    fn part(&self, part: Part) -> Selection {
        let trees = Arc::clone(&self.trees);
        Selection { trees, part, selector: Selector::everything(), shortcut: None }
    }
}

impl Selection {
    /// Restricts the selection by labels. A second selector replaces the first.
    #[must_use]
    pub fn matching(mut self, selector: &Selector) -> Self {
        self.shortcut = self.label_index(selector);
        self.selector = selector.clone();
        self
    }

    /// Iterates over the objects.
    pub fn iter(&self) -> Objects<'_> {
        let objects = &self.trees.objects;
        let walk = match (&self.part, &self.shortcut) {
            (Part::All, None) => Walk::Objects(objects.iter(), None),
            (Part::Namespace(namespace), _) => {
                Walk::Objects(objects.from(KeyRef::new(Some(namespace), "")), Some(namespace))
            }
            (Part::All, Some((number, value))) | (Part::Index(number, value), _) => {
                let entries = &self.trees.indexes[*number].entries;
                Walk::Index(entries.from(Place { value, key: None }), value)
            }
        };
        Objects { walk, selector: &self.selector }
    }

    fn label_index(&self, selector: &Selector) -> Option<(usize, Box<str>)> {
        selector.exact().find_map(|pair| {
            let covers = |tree: &IndexTree| tree.index.covers_label(pair.0);
            let number = self.trees.indexes.iter().position(covers)?;
            Some((number, pair.index_text().into()))
        })
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a Arc<Object>;

    fn next(&mut self) -> Option<&'a Arc<Object>> {
        loop {
            let object = match &mut self.walk {
                Walk::Objects(objects, None) => objects.next()?,
                Walk::Objects(objects, namespace) => {
                    objects.next().filter(|object| object.head().namespace() == *namespace)?
                }
                Walk::Index(entries, value) => {
                    &entries.next().filter(|entry| *entry.value == **value)?.object
                }
            };
            if self.selector.matches(object.head().labels()) {
                return Some(object);
            }
        }
    }
}

impl<'a> IntoIterator for &'a Selection {
    type Item = &'a Arc<Object>;
    type IntoIter = Objects<'a>;

    fn into_iter(self) -> Objects<'a> {
        self.iter()
    }
}
