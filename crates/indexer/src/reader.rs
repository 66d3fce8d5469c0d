//! Reading a store without types: one object, a moment, a part of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::de::DeserializeOwned;

use crate::error::{IndexError, LayoutError};
use crate::face::short_name;
use crate::index::{Index, IndexEntry, LookUp, Place};
use crate::key::KeyRef;
use crate::lister::Lister;
use crate::object::Object;
use crate::selector::Selector;
use crate::store::{Shared, Trees};
use crate::tree::Iter;

/// A handle for reading a store, cheap to clone. For typed objects, ask it for a [`Lister`].
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

/// A store at one moment. It costs nothing to take and keeps what it shows alive as long as it lives.
#[derive(Clone, Debug)]
pub struct Snapshot {
    moment: Arc<Trees>,
}

/// Some objects of a moment, in the order of their keys. Nothing is looked up or copied until they are walked
/// over.
#[derive(Clone, Debug)]
pub struct Selection {
    moment: Arc<Trees>,
    part: Part,
    selector: Selector,
    /// An index and its value that hold all that the selector picks.
    shortcut: Option<(usize, Box<str>)>,
}

/// What is walked over.
#[derive(Clone, Debug)]
enum Part {
    All,
    Namespace(Box<str>),
    /// The entries of one value of an index.
    Index(usize, Box<str>),
}

/// The objects of a selection.
pub struct Objects<'a> {
    walk: Walk<'a>,
    selector: &'a Selector,
}

enum Walk<'a> {
    All(Iter<'a, Arc<Object>>),
    Namespace(Iter<'a, Arc<Object>>, &'a str),
    Index(Iter<'a, IndexEntry>, &'a str),
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The object of a key.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<Arc<Object>> {
        self.shared.table.get(key.into())
    }

    /// The store as it is now.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { moment: Arc::clone(&*self.shared.trees.read()) }
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.shared.trees.read().objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the objects take, as [`Object::allocated_bytes`] counts it.
    pub fn object_bytes(&self) -> usize {
        self.shared.object_bytes.load(Ordering::Relaxed)
    }

    /// A reader of typed objects.
    ///
    /// # Errors
    /// If the store is resident as another type.
    pub fn lister<K>(&self) -> Result<Lister<K>, LayoutError>
    where
        K: DeserializeOwned + Send + Sync + 'static,
    {
        if let Some(resident) = &self.shared.resident
            && !resident.is::<K>()
        {
            let (resident, wanted) = (resident.name(), short_name::<K>());
            return Err(LayoutError::Resident { resident, wanted });
        }
        Ok(Lister::new(self.clone(), self.shared.face::<K>()))
    }
}

impl Snapshot {
    /// The object of a key. In a snapshot this takes a search; [`Reader::get`] is faster.
    pub fn get<'k>(&self, key: impl Into<KeyRef<'k>>) -> Option<&Arc<Object>> {
        self.moment.objects.get(key.into())
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.moment.objects.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All objects.
    pub fn all(&self) -> Selection {
        self.part(Part::All)
    }

    /// The objects of a namespace. The order of keys serves as the index: it takes as long as its result.
    pub fn in_namespace(&self, namespace: &str) -> Selection {
        self.part(Part::Namespace(namespace.into()))
    }

    /// The objects with a value in an index.
    ///
    /// # Errors
    /// If the store had no such index at this moment.
    pub fn by_index<I: Index>(
        &self,
        value: &(impl LookUp<I::Value> + ?Sized),
    ) -> Result<Selection, IndexError> {
        let number = self.moment.index_number::<I>()?;
        Ok(self.part(Part::Index(number, value.index_text().into())))
    }

    /// The objects with certain labels. If there is a [`ByLabel`](crate::ByLabel) index for a label that must
    /// have one value, only the objects with that value are looked at.
    pub fn select(&self, selector: &Selector) -> Selection {
        self.all().matching(selector)
    }

    fn part(&self, part: Part) -> Selection {
        let moment = Arc::clone(&self.moment);
        Selection { moment, part, selector: Selector::everything(), shortcut: None }
    }
}

impl Selection {
    /// Those of them with certain labels. A second selector takes the place of the first.
    #[must_use]
    pub fn matching(mut self, selector: &Selector) -> Self {
        self.shortcut = self.label_index(selector);
        self.selector = selector.clone();
        self
    }

    /// The objects.
    pub fn iter(&self) -> Objects<'_> {
        let objects = &self.moment.objects;
        let walk = match (&self.part, &self.shortcut) {
            (Part::All, None) => Walk::All(objects.iter()),
            (Part::Namespace(namespace), _) => {
                Walk::Namespace(objects.from(KeyRef::new(Some(namespace), "")), namespace)
            }
            (Part::All, Some((number, value))) | (Part::Index(number, value), _) => {
                let entries = &self.moment.indexes[*number].entries;
                Walk::Index(entries.from(Place { value, key: None }), value)
            }
        };
        Objects { walk, selector: &self.selector }
    }

    fn label_index(&self, selector: &Selector) -> Option<(usize, Box<str>)> {
        use crate::index::IndexValue;

        selector.exact().find_map(|pair| {
            let covers = |tree: &crate::store::IndexTree| tree.index.covers_label(pair.0);
            let number = self.moment.indexes.iter().position(covers)?;
            Some((number, pair.index_text().into()))
        })
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = &'a Arc<Object>;

    fn next(&mut self) -> Option<&'a Arc<Object>> {
        loop {
            let object = match &mut self.walk {
                Walk::All(objects) => objects.next()?,
                Walk::Namespace(objects, namespace) => {
                    objects.next().filter(|object| object.head().namespace() == Some(*namespace))?
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
