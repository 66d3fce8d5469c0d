//! From a parsed request to its answer: dispatches on the verb and the resource.

use std::cell::RefCell;
use std::sync::{Arc, MutexGuard};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::accept;
use crate::access::{Access, Requester};
use crate::body::{self, Body};
use crate::deprecation;
use crate::discovery;
use crate::failure::Failure;
use crate::fault::Fault;
use crate::fields::{finalizers, text};
use crate::json;
use crate::kind::Verbs;
use crate::kinds::Registry;
use crate::object::{Encoding, Form};
use crate::openapi;
use crate::query::{FieldValidation, Query};
use crate::reply::{self, Reply};
use crate::request::RequestInfo;
use crate::route::{ResourcePath, Route};
use crate::shared::Shared;
use crate::state::State;
use crate::table::{Include, TableWriter};
use crate::target::Target;
use crate::webhook::replay::Replay;
use crate::write::apply::tracking::{Tracking, Writer};
use crate::write::apply::{self, Apply};
use crate::write::create::fit_namespace;
use crate::write::decode::Decoder;
use crate::write::delete::DeleteOptions;
use crate::write::patch::{Patch, PatchType};
use crate::write::review::{self, ReviewContext};
use crate::write::{Answer, Written, decode};

/// A request with everything that is known about it.
pub(crate) struct Call<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) parts: &'a Parts,
    pub(crate) body: Bytes,
    /// The nesting depth of the body.
    pub(crate) depth: usize,
    pub(crate) requester: Requester,
    pub(crate) info: RequestInfo,
    pub(crate) query: Query,
    /// Faults that affect reads.
    pub(crate) faults: &'a [Fault],
    /// The warnings of the answer.
    pub(crate) warnings: RefCell<Vec<String>>,
}

/// The content type of aggregated discovery.
const AGGREGATED_TYPE: HeaderValue = HeaderValue::from_static(
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
);

/// Subresources that real servers have and this one does not.
const UNSUPPORTED_SUBRESOURCES: [&str; 8] =
    ["approval", "attach", "ephemeralcontainers", "exec", "log", "portforward", "proxy", "resize"];

impl Call<'_> {
    /// Returns the answer with its warnings. Attempts the request again each time that webhooks
    /// have answered.
    pub(crate) async fn answer(self, route: &Route) -> Response<Body> {
        let webhooks = &self.shared.webhooks;
        let mut replay = None;
        let result = loop {
            let result = self.route(route, &mut replay);
            let Some(asking) = replay.as_mut().filter(|replay| replay.is_waiting()) else {
                break result;
            };
            if let Err(failure) = asking.answer(webhooks).await {
                break Err(failure);
            }
            // The next attempt collects the warnings again.
            self.warnings.borrow_mut().clear();
        };
        let result = match (result, &mut replay) {
            (Ok(found), None) => Ok(found.response()),
            (Ok(found), Some(asked)) => found.converted(&mut asked.caller(webhooks)).await,
            (Err(failure), _) => Err(failure),
        };
        let response = result.unwrap_or_else(|failure| reply::failure(&failure));
        let mut warnings = self.warnings.into_inner();
        warnings.extend(replay.iter().flat_map(Replay::warnings).cloned());
        reply::warned(response, &warnings)
    }

    fn route(&self, route: &Route, replay: &mut Option<Replay>) -> Result<Reply, Failure> {
        if let Route::Resource(path) = route {
            return self.resource(path, replay);
        }
        self.document(route).map(Reply::Ready)
    }

    /// Answers requests that are not about a resource.
    fn document(&self, route: &Route) -> Result<Response<Body>, Failure> {
        match route {
            Route::Health => Ok(reply::text(StatusCode::OK, "ok")),
            Route::Version => Ok(reply::json(StatusCode::OK, &version())),
            Route::LegacyWatch => Err(Failure::unsupported(
                "paths with /watch/",
                "use the query parameter watch=true",
            )),
            Route::Unknown => Ok(reply::page_not_found()),
            Route::OpenApi => openapi::index(self.shared),
            Route::OpenApiDocument { group, version } => {
                openapi::document(self.shared, self.parts, group, version)
            }
            discovery => self.discovery(discovery),
        }
    }

    fn discovery(&self, route: &Route) -> Result<Response<Body>, Failure> {
        accept::check_discovery(self.header(ACCEPT))?;
        let state = self.shared.state();
        let registry = &state.registry;
        let aggregated = accept::wants_aggregated_discovery(self.header(ACCEPT));
        let document = match route {
            Route::CoreVersions if aggregated => Some(discovery::aggregated_api(registry)),
            Route::Groups if aggregated => Some(discovery::aggregated_apis(registry)),
            Route::CoreVersions => Some(discovery::api(self.host())),
            Route::Groups => Some(discovery::apis(registry)),
            Route::Group(group) => discovery::group(registry, group),
            Route::GroupVersion { group, version } => {
                discovery::resources(registry, group, version)
            }
            _ => None,
        };
        let Some(document) = document else {
            return match route {
                Route::GroupVersion { group, .. } => resource_not_served(registry, group),
                _ => Ok(reply::page_not_found()),
            };
        };
        let mut response = reply::json(StatusCode::OK, &document);
        if aggregated && matches!(route, Route::CoreVersions | Route::Groups) {
            response.headers_mut().insert(CONTENT_TYPE, AGGREGATED_TYPE);
        }
        Ok(response)
    }

    fn resource(&self, path: &ResourcePath, replay: &mut Option<Replay>) -> Result<Reply, Failure> {
        let mut state = self.shared.state();
        let Some(target) = state.target(path) else {
            return resource_not_served(&state.registry, &path.group).map(Reply::Ready);
        };
        let depth_max = json::depth_max_of(&target.kind);
        if self.depth > depth_max {
            return Err(Failure::bad_request(json::too_deep(depth_max)));
        }
        self.warnings.borrow_mut().extend(deprecation::warning(&state, &target));
        if target.kind.rules.verbs == Verbs::CreateOnly {
            return self.review(state, &target).map(Reply::Ready);
        }
        if state.rbac.is_some() {
            state.sender = Some(self.requester.user.clone());
        }
        let is_write = !matches!(self.parts.method, Method::GET | Method::HEAD);
        let may_ask = is_write && !state.hooks.is_empty() || target.kind.conversion.is_some();
        if may_ask && replay.is_none() {
            let (user, options) = (self.requester.user.clone(), self.write_options());
            let State { ids, clock, .. } = &mut *state;
            *replay = Some(Replay::new(ids, clock, user, options));
        }
        let response = state.attempt(replay, |state| self.verb(state, &target));
        state.sender = None;
        self.warnings.borrow_mut().append(&mut state.warnings);
        state.run_controllers();
        response
    }

    fn verb(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        if !target.subresource.is_empty() {
            return self.subresource(state, target);
        }
        let collection = target.name.is_empty();
        match (&self.parts.method, collection) {
            (&Method::GET, true) if self.query.watch => self.watch(state, target),
            (&Method::GET, true) => self.list(state, target),
            (&Method::GET, false) => self.get(state, target),
            (&Method::POST, true) => self.create(state, target),
            // The real server treats a create at the path of a custom object as a create at its
            // collection.
            (&Method::POST, false) if !target.kind.is_builtin() => self.create(state, target),
            (&Method::PUT, false) => self.update(state, target),
            (&Method::PATCH, false) => self.patch(state, target),
            (&Method::DELETE, false) => self.delete(state, target),
            (&Method::DELETE, true) if target.kind.rules.verbs == Verbs::All => {
                self.delete_collection(state, target)
            }
            (&Method::PUT | &Method::PATCH, true) if !target.kind.is_builtin() => {
                Err(Failure::bad_request("name must be provided"))
            }
            _ => Err(Failure::method_not_allowed()),
        }
    }

    fn subresource(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let part = target.subresource.as_str();
        let version = target.version();
        let plain = part == "status" && version.status
            || part == "finalize" && version.subresources.contains(&part);
        match (&self.parts.method, part) {
            (&Method::GET, _) if plain => self.get(state, target),
            (&Method::PUT, _) if plain => self.update(state, target),
            (&Method::PATCH, "status") if plain => self.patch(state, target),
            (_, "scale") if version.scale.is_some() => self.scale(state, target),
            (&Method::POST, "binding") if version.subresources.contains(&part) => {
                self.bind(state, target)
            }
            (&Method::POST, "eviction") if version.subresources.contains(&part) => {
                self.evict(state, target)
            }
            (&Method::POST, "token") if version.subresources.contains(&part) => {
                self.token(state, target)
            }
            _ if plain && !target.kind.is_builtin() => Err(self.no_such_verb(target)),
            _ if plain || version.subresources.contains(&part) => {
                Err(Failure::method_not_allowed())
            }
            _ if !target.kind.is_builtin() => Err(Failure::not_found(&target.kind, &target.name)),
            _ if UNSUPPORTED_SUBRESOURCES.contains(&part) => Err(Failure::unsupported(
                &format!("{}/{part}", target.kind.plural),
                "no process runs behind its objects",
            )),
            _ => Err(Failure::no_such_resource()),
        }
    }

    fn get(&self, state: &State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let now = state.store.revision();
        if let Some(text) = self.query.resource_version.as_deref() {
            let asked = crate::query::version_number(text).map_err(Failure::internal)?;
            if asked > now {
                return Err(Failure::version_too_large(asked, now));
            }
        }
        let object = match self.stale() {
            0 => state.existing(target)?,
            behind => {
                let kind = target.kind.storage;
                let then = now.saturating_sub(behind).max(state.store.oldest(kind));
                let object = state.store.get_at(kind, &target.key(), then);
                object.ok_or_else(|| Failure::not_found(&target.kind, &target.name))?
            }
        };
        self.reply(target, Written::object(StatusCode::OK, object), encoding)
    }

    fn list(&self, state: &State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let filter = state.filter(target, &self.query)?;
        let table = self.check_table(&encoding);
        let page = state.list(target, &self.query, &filter, encoding, self.stale())?;
        table?;
        Ok(Reply::Page(Box::new(page), target.kind.clone()))
    }

    fn watch(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let table = self.check_table(&encoding);
        let watch = state.watch(self.shared, self.info.clone(), target, &self.query, encoding)?;
        table?;
        Ok(Reply::Ready(reply::json_body(body::stream(watch.into_stream()))))
    }

    fn create(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let dry_run = self.query.check_write("CreateOptions")?;
        if target.kind.namespaced && target.namespace.is_empty() {
            return if target.kind.is_builtin() {
                Err(Failure::method_not_allowed())
            } else {
                Ok(Reply::Ready(reply::page_not_found()))
            };
        }
        let object = self.decode(state, target)?;
        self.warn_of_finalizers(target, &object);
        let written = state.create(target, object, dry_run, Tracking::By(self.writer()))?;
        self.reply(target, written, encoding)
    }

    fn update(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let dry_run = self.query.check_write("UpdateOptions")?;
        let object = self.decode(state, target)?;
        if target.kind.rules.create_on_update
            && target.subresource.is_empty()
            && state.existing(target).is_err()
        {
            self.check_may_create(state)?;
        }
        let written = state.put_object(target, dry_run, Tracking::By(self.writer()), object)?;
        self.reply(target, written, encoding)
    }

    fn patch(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let patch_type = PatchType::of(target, self.header(CONTENT_TYPE))?;
        let dry_run = self.query.check_patch(patch_type == PatchType::Apply)?;
        let written = if patch_type == PatchType::Apply {
            self.apply(state, target, dry_run)?
        } else {
            state.update(target, dry_run, Tracking::By(self.writer()), |object| {
                Patch::parse(patch_type, &self.body)?.apply(&self.decoder(target), object)
            })?
        };
        self.reply(target, written, encoding)
    }

    /// Server-side apply. If it creates the object, the sender must be allowed to create it.
    fn apply(&self, state: &mut State, target: &Target, dry_run: bool) -> Result<Written, Failure> {
        let apply = self.configuration(target)?;
        if target.subresource.is_empty() && state.existing(target).is_err() {
            self.check_may_create(state)?;
        }
        state.apply(target, &self.decoder(target), apply, dry_run)
    }

    /// Returns the applied configuration from the body.
    fn configuration(&self, target: &Target) -> Result<Apply<'_>, Failure> {
        let read = apply::parse(&self.body)?;
        self.decoder(target).duplicates(&read.duplicates)?;
        Ok(Apply {
            config: read.value.as_object().cloned().unwrap_or_default(),
            manager: &self.query.field_manager,
            force: self.query.force == Some(true),
        })
    }

    /// Returns a 403 if the sender may not create objects. Writes that create a missing object need
    /// this right, too.
    fn check_may_create(&self, state: &State) -> Result<(), Failure> {
        let create = RequestInfo { verb: "create", ..self.info.clone() };
        let (access, create) = (self.access(state), create.attributes(None));
        self.requester.users().try_for_each(|user| access.authorize(user, &create))
    }

    fn access<'b>(&'b self, state: &'b State) -> Access<'b> {
        Access { auth: &self.shared.auth, rbac: state.rbac.as_deref() }
    }

    /// Returns the writer that managed fields record.
    fn writer(&self) -> Writer<'_> {
        Writer::new(&self.query.field_manager, self.header(USER_AGENT))
    }

    fn delete(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let written = state.delete(target, &self.delete_options()?, false)?;
        self.reply(target, written, encoding)
    }

    /// Deletes a collection. The answer shows the objects as they were before.
    fn delete_collection(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let encoding = self.encoding(target)?;
        let options = self.delete_options()?;
        options.check()?;
        let filter = state.filter(target, &self.query)?;
        let table = self.check_table(&encoding);
        let page = state.list(target, &self.query, &filter, encoding, 0)?;
        let all = page.keys().into_iter().map(|key| Target {
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            ..target.clone()
        });
        let all: Vec<Target> = all.collect();
        admit_deletions(state, &all, &options)?;
        for one in &all {
            state.delete(one, &options, true)?;
        }
        table?;
        Ok(Reply::Page(Box::new(page), target.kind.clone()))
    }

    fn scale(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let content_type = self.header(CONTENT_TYPE);
        let encoding = self.encoding(target)?;
        let written = match self.parts.method {
            Method::GET => Written::value(StatusCode::OK, state.get_scale(target)?),
            Method::PUT => {
                let dry_run = self.query.check_write("UpdateOptions")?;
                let scale = self.value(("autoscaling/v1", "Scale"))?;
                state.update_scale(target, dry_run, self.writer(), |_| Ok(scale))?
            }
            Method::PATCH => {
                let patch_type = PatchType::of(target, content_type)?;
                let dry_run = self.query.check_patch(patch_type == PatchType::Apply)?;
                if patch_type == PatchType::Apply {
                    let apply = self.configuration(target)?;
                    let written =
                        state.apply_scale(target, &self.decoder(target), apply, dry_run)?;
                    return Ok(Reply::Ready(reply::written(&written, &encoding)));
                }
                let patch = Patch::parse(patch_type, &self.body)?;
                state.update_scale(target, dry_run, self.writer(), |scale| {
                    patch.apply_value(scale)
                })?
            }
            _ if target.kind.is_builtin() => return Err(Failure::method_not_allowed()),
            _ => return Err(self.no_such_verb(target)),
        };
        match &written.answer {
            Answer::Value(scale) if let Some(mut table) = encoding.table_of(scale) => {
                self.check_table(&encoding)?;
                table.push(b'\n');
                Ok(Reply::Ready(reply::json_body(body::whole(table))))
            }
            _ => self.reply(target, written, encoding),
        }
    }

    /// Puts a pod on a node, as a scheduler does.
    fn bind(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let dry_run = self.query.check_write("CreateOptions")?;
        let mut binding = self.decode_subresource(state, target, ("v1", "Binding"))?;
        fit_namespace(target, &mut binding)?;
        let binding = state.admit_part(target, ("v1", "Binding"), binding, dry_run)?;
        state.bind(target, &Value::Object(binding), dry_run)?;
        Ok(Reply::Ready(reply::json(StatusCode::CREATED, &success())))
    }

    /// Deletes a pod, if its disruption budget allows it.
    fn evict(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        self.query.check_write("CreateOptions")?;
        let mut eviction = self.decode_subresource(state, target, ("policy/v1", "Eviction"))?;
        fit_namespace(target, &mut eviction)?;
        if text(&eviction, "name") != target.name {
            return Err(Failure::bad_request("name in URL does not match name in Eviction object"));
        }
        let dry_run = !self.query.dry_run.is_empty();
        let mut eviction =
            state.admit_part(target, ("policy/v1", "Eviction"), eviction, dry_run)?;
        let options = eviction.remove("deleteOptions").unwrap_or_else(|| json!({}));
        let mut options = DeleteOptions::from_value(options)?;
        options.dry_run.extend(self.query.dry_run.iter().cloned());
        let pod = Target { subresource: String::new(), ..target.clone() };
        state.evict(&pod, &options)?;
        Ok(Reply::Ready(reply::json(StatusCode::CREATED, &success())))
    }

    /// Issues a token for a service account.
    fn token(&self, state: &mut State, target: &Target) -> Result<Reply, Failure> {
        let dry_run = self.query.check_write("CreateOptions")?;
        let expected = ("authentication.k8s.io/v1", "TokenRequest");
        let request = self.decode_subresource(state, target, expected)?;
        let request = state.admit_part(target, expected, request, dry_run)?;
        let answered = state.issue_token(target, request, dry_run, &self.shared.signer)?;
        Ok(Reply::Ready(reply::json(StatusCode::CREATED, &answered)))
    }

    /// Answers a review. A review changes nothing, so the lock of the state may be released in
    /// between.
    fn review(
        &self,
        state: MutexGuard<'_, State>,
        target: &Target,
    ) -> Result<Response<Body>, Failure> {
        if !target.name.is_empty() {
            return Err(Failure::no_such_resource());
        }
        if self.parts.method != Method::POST {
            return Err(Failure::method_not_allowed());
        }
        self.query.check_write("CreateOptions")?;
        let object = self.decode(&state, target)?;
        drop(state);
        let is_token_review = target.kind.kind == "TokenReview";
        let claims = is_token_review.then(|| review::open_token(&object, &self.shared.signer));
        let state = self.shared.state();
        let (access, user) = (self.access(&state), &self.requester.user);
        let asked = ReviewContext { access, state: &state, user, claims: claims.flatten() };
        let answered = review::answer(target, object, &asked)?;
        Ok(reply::json(StatusCode::CREATED, &Value::Object(answered)))
    }

    fn decode(&self, state: &State, target: &Target) -> Result<Map<String, Value>, Failure> {
        self.decoder(target).body(&state.registry, &self.body, self.header(CONTENT_TYPE))
    }

    /// Decodes the body of a subresource, which must have this version and kind.
    fn decode_subresource(
        &self,
        state: &State,
        target: &Target,
        expected: (&str, &str),
    ) -> Result<Map<String, Value>, Failure> {
        let decoder = self.decoder(target).of_subresource(expected);
        decoder.body(&state.registry, &self.body, self.header(CONTENT_TYPE))
    }

    fn decoder<'b>(&'b self, target: &'b Target) -> Decoder<'b> {
        Decoder::new(target, &self.query.field_validation, &self.warnings)
    }

    /// Warns of finalizers without a domain in a custom resource. Built-in kinds refuse them.
    fn warn_of_finalizers(&self, target: &Target, object: &Map<String, Value>) {
        if target.kind.is_builtin() {
            return;
        }
        let vague = finalizers(object).into_iter().filter(|name| !name.contains('/'));
        self.warnings.borrow_mut().extend(vague.map(|name| {
            format!(
                "metadata.finalizers: {name:?}: prefer a domain-qualified finalizer name to avoid \
                 accidental conflicts with other finalizer writers"
            )
        }));
    }

    /// Parses a body that is not an object of the target's kind, but of `expected`.
    fn value(&self, expected: (&str, &str)) -> Result<Value, Failure> {
        decode::parse_as(&self.body, self.header(CONTENT_TYPE), expected)
    }

    fn delete_options(&self) -> Result<DeleteOptions, Failure> {
        DeleteOptions::parse(&self.body, self.header(CONTENT_TYPE), &self.query)
    }

    fn encoding(&self, target: &Target) -> Result<Encoding, Failure> {
        let whole = target.name.is_empty() && self.parts.method != Method::POST;
        let list = whole && !self.query.watch;
        let (kind, version) = (&target.kind, target.version());
        let mut form = accept::object_form(self.header(ACCEPT), kind.is_builtin(), list)?;
        let Form::Table(table) = &mut form else { return Ok(Encoding::new(kind, version, form)) };
        table.include = Include::parse(&self.query.include_object).unwrap_or_default();
        let clock = self.shared.clock.clone();
        let writer = TableWriter::new(table.version, clock, kind, version, &target.subresource);
        Ok(Encoding::new(kind, version, form).with_table(writer))
    }

    /// Answers with the result of a write.
    fn reply(
        &self,
        target: &Target,
        written: Written,
        encoding: Encoding,
    ) -> Result<Reply, Failure> {
        self.check_table(&encoding)?;
        Ok(Reply::Object(written, Box::new(encoding), target.kind.clone()))
    }

    /// Returns the options of a create or an update as webhooks receive them.
    fn write_options(&self) -> Value {
        let mut options = json!({});
        if !self.query.dry_run.is_empty() {
            options["dryRun"] = json!(self.query.dry_run);
        }
        if !self.query.field_manager.is_empty() {
            options["fieldManager"] = self.query.field_manager.as_str().into();
        }
        match self.query.field_validation {
            FieldValidation::Ignore => options["fieldValidation"] = "Ignore".into(),
            FieldValidation::Strict => options["fieldValidation"] = "Strict".into(),
            _ => {}
        }
        options
    }

    /// Checks the options of a table. This comes last, so a write may have been stored already.
    fn check_table(&self, encoding: &Encoding) -> Result<(), Failure> {
        let is_table = encoding.table().is_some();
        if is_table { Include::parse(&self.query.include_object).map(drop) } else { Ok(()) }
    }

    fn header(&self, name: http::HeaderName) -> Option<&str> {
        self.parts.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The error for a verb that a subresource of a custom resource does not have.
    fn no_such_verb(&self, target: &Target) -> Failure {
        Failure::verb_not_supported(&target.kind, self.info.verb)
    }

    /// Returns the address at which the client reached this server.
    fn host(&self) -> &str {
        self.header(HOST).unwrap_or("localhost")
    }

    /// Returns by how many revisions reads lag behind, because of a fault.
    fn stale(&self) -> u64 {
        let stale = self.faults.iter().map(|fault| match fault {
            Fault::StaleRead { revisions } => *revisions,
            _ => 0,
        });
        stale.max().unwrap_or(0)
    }
}

/// Calls the webhooks for all objects before the first one is deleted, and stops at the first
/// refusal. An attempt that has to wait for webhooks must not have changed anything.
fn admit_deletions(
    state: &mut State,
    all: &[Target],
    options: &DeleteOptions,
) -> Result<(), Failure> {
    if state.replay.is_none() {
        return Ok(());
    }
    for one in all {
        let stored = state.existing(one)?;
        let admitted = state.admit_delete(one, &stored, options, true);
        if admitted.is_err() && !state.is_waiting() {
            break;
        }
    }
    if state.is_waiting() { Err(Failure::unanswered()) } else { Ok(()) }
}

/// Answers a request for a missing resource: with a Status in a built-in group, with plain text
/// elsewhere, as the real server does.
fn resource_not_served(registry: &Registry, group: &str) -> Result<Response<Body>, Failure> {
    let group = registry.group(group);
    let builtin = group.is_some_and(|group| group.kinds.iter().any(|kind| kind.is_builtin()));
    if builtin { Err(Failure::no_such_resource()) } else { Ok(reply::page_not_found()) }
}

fn success() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Returns the version of the release that this server emulates.
fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": "v1.36.3+windlass",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}
