//! The public items of a crate, read from its sources: the shortest path to each, with fields,
//! variants and methods.
//!
//! It supports the subset of Rust's modules that kube-runtime uses: files, inline modules, and
//! `pub use` with groups and renames. Globs and other crates are not followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use syn::{Attribute, Ident, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

#[derive(Default)]
struct Module {
    /// All modules, with whether they are public: a `pub use` may name a private one.
    modules: BTreeMap<String, (bool, Module)>,
    /// Public items, with the names of their public members.
    items: BTreeMap<String, BTreeSet<String>>,
    /// The imports of `pub use`: the name, and the path from here.
    imports: Vec<(String, Vec<String>)>,
}

/// Returns every public item and member, sorted.
pub(super) fn identifiers(sources: &Path) -> Result<Vec<String>> {
    Ok(Module::read(&sources.join("lib.rs"), sources)?.public())
}

/// By the path of an item's definition: the shortest public path to it, and its members.
type Found<'a> = BTreeMap<Vec<String>, (String, &'a BTreeSet<String>)>;

impl Module {
    /// Returns everything that is public in the root of a crate.
    fn public(&self) -> Vec<String> {
        let mut found = Found::new();
        self.expose(self, &[], &[], &mut found);
        let lines = found.into_values().flat_map(|(path, members)| {
            let of_path: Vec<_> = members.iter().map(|name| format!("{path}::{name}")).collect();
            [path].into_iter().chain(of_path)
        });
        lines.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Reads a file whose modules are in `folder`.
    fn read(file: &Path, folder: &Path) -> Result<Self> {
        let failed = || format!("{} cannot be read", file.display());
        let source = fs::read_to_string(file).with_context(failed)?;
        Self::of(syn::parse_file(&source).with_context(failed)?.items, folder)
    }

    fn of(items: Vec<Item>, folder: &Path) -> Result<Self> {
        let mut module = Self::default();
        for item in items {
            module.add(item, folder)?;
        }
        Ok(module)
    }

    fn add(&mut self, item: Item, folder: &Path) -> Result<()> {
        match item {
            Item::Mod(item) if !is_test(&item.attrs) => {
                let name = item.ident.to_string();
                let inner = folder.join(&name);
                let module = match item.content {
                    Some((_, items)) => Self::of(items, &inner)?,
                    None if inner.join("mod.rs").exists() => {
                        Self::read(&inner.join("mod.rs"), &inner)?
                    }
                    None => Self::read(&folder.join(format!("{name}.rs")), &inner)?,
                };
                self.modules.insert(name, (is_public(&item.vis), module));
            }
            Item::Use(item) if is_public(&item.vis) => self.import(item.tree, &mut Vec::new()),
            Item::Fn(item) if is_public(&item.vis) => self.member(&item.sig.ident, []),
            Item::Const(item) if is_public(&item.vis) => self.member(&item.ident, []),
            Item::Type(item) if is_public(&item.vis) => self.member(&item.ident, []),
            Item::Struct(item) if is_public(&item.vis) => {
                let public = item.fields.into_iter().filter(|field| is_public(&field.vis));
                self.member(&item.ident, public.filter_map(|field| field.ident));
            }
            Item::Enum(item) if is_public(&item.vis) => {
                self.member(&item.ident, item.variants.into_iter().map(|variant| variant.ident));
            }
            Item::Trait(item) if is_public(&item.vis) => {
                let methods = item.items.into_iter().filter_map(|item| match item {
                    TraitItem::Fn(method) => Some(method.sig.ident),
                    _ => None,
                });
                self.member(&item.ident, methods);
            }
            Item::Impl(item) if item.trait_.is_none() => {
                let Type::Path(of) = *item.self_ty else { return Ok(()) };
                let Some(of) = of.path.segments.last() else { return Ok(()) };
                let methods = item.items.into_iter().filter_map(|item| match item {
                    ImplItem::Fn(method) if is_public(&method.vis) && !is_test(&method.attrs) => {
                        Some(method.sig.ident.to_string())
                    }
                    _ => None,
                });
                // In kube-runtime's files, the type precedes its `impl` blocks.
                if let Some(members) = self.items.get_mut(&of.ident.to_string()) {
                    members.extend(methods);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn member(&mut self, item: &Ident, members: impl IntoIterator<Item = Ident>) {
        let members = members.into_iter().map(|member| member.to_string());
        self.items.entry(item.to_string()).or_default().extend(members);
    }

    fn import(&mut self, tree: UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(tree) => {
                path.push(tree.ident.to_string());
                self.import(*tree.tree, path);
                path.pop();
            }
            UseTree::Group(tree) => {
                tree.items.into_iter().for_each(|tree| self.import(tree, path));
            }
            UseTree::Name(tree) => {
                let name = tree.ident.to_string();
                self.imports.push((name.clone(), [&path[..], &[name]].concat()));
            }
            UseTree::Rename(tree) => {
                let named = [&path[..], &[tree.ident.to_string()]].concat();
                self.imports.push((tree.rename.to_string(), named));
            }
            UseTree::Glob(_) => {}
        }
    }

    /// Finds everything that is public in the module `here`, which has the public path `public`.
    fn expose<'a>(
        &'a self,
        root: &'a Self,
        here: &[String],
        public: &[String],
        found: &mut Found<'a>,
    ) {
        for (name, members) in &self.items {
            note(&join(here, name), &join(public, name), members, found);
        }
        for (name, (is_public, module)) in &self.modules {
            if *is_public {
                module.expose(root, &join(here, name), &join(public, name), found);
            }
        }
        for (name, path) in &self.imports {
            let path = absolute(here, path);
            root.reach(root, &path, 0, &join(public, name), found);
        }
    }

    /// Follows an absolute path from the module at `depth`. Its last name may be an item, a module,
    /// or an import, or two of these.
    fn reach<'a>(
        &'a self,
        root: &'a Self,
        path: &[String],
        depth: usize,
        public: &[String],
        found: &mut Found<'a>,
    ) {
        let (name, is_last) = (&path[depth], depth + 1 == path.len());
        if let Some((is_public, module)) = self.modules.get(name) {
            match is_last {
                false => module.reach(root, path, depth + 1, public, found),
                true if *is_public => module.expose(root, path, public, found),
                true => {}
            }
        }
        if !is_last {
            return;
        }
        if let Some(members) = self.items.get(name) {
            note(path, public, members, found);
        }
        for (_, target) in self.imports.iter().filter(|(imported, _)| imported == name) {
            root.reach(root, &absolute(&path[..depth], target), 0, public, found);
        }
    }
}

fn note<'a>(
    defined: &[String],
    public: &[String],
    members: &'a BTreeSet<String>,
    found: &mut Found<'a>,
) {
    let path = public.join("::");
    let known = found.entry(defined.to_vec()).or_insert_with(|| (path.clone(), members));
    if path.len() < known.0.len() {
        known.0 = path;
    }
}

/// Converts the path of a `use` in the module `here` to a path from the root.
fn absolute(here: &[String], path: &[String]) -> Vec<String> {
    match path[0].as_str() {
        "crate" => path[1..].to_vec(),
        "self" => [here, &path[1..]].concat(),
        "super" => absolute(&here[..here.len() - 1], &path[1..]),
        _ => [here, path].concat(),
    }
}

fn join(path: &[String], name: &str) -> Vec<String> {
    [path, &[name.to_owned()]].concat()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|what| what.is_ident("test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(source: &str) -> Vec<String> {
        let file = syn::parse_file(source).expect("a valid source");
        Module::of(file.items, Path::new("")).expect("no other file").public()
    }

    #[test]
    fn public_members_are_listed_and_private_ones_are_not() {
        let source = "
            pub struct Config { pub size: u8, name: String }
            impl Config { pub fn new() {} fn check() {} #[cfg(test)] pub fn fake() {} }
            impl Default for Config { fn default() -> Self {} }
            pub enum Event { Added }
            pub trait Hash { fn hash(&self); }
            struct Hidden;
            #[cfg(test)] pub mod tests { pub fn helper() {} }
        ";
        let expected = [
            "Config",
            "Config::new",
            "Config::size",
            "Event",
            "Event::Added",
            "Hash",
            "Hash::hash",
        ];
        assert_eq!(public(source), expected);
    }

    #[test]
    fn an_item_is_listed_once_by_its_shortest_public_path() {
        let source = "
            pub mod a { mod inner { pub fn f() {} } pub use self::inner::f as g; pub struct S; }
            mod b { pub mod tools { pub fn cut() {} } }
            pub use a::{S, g};
            pub use crate::b::tools;
            pub use other::Thing;
        ";
        assert_eq!(public(source), ["S", "g", "tools::cut"]);
    }
}
