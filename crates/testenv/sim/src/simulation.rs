//! What a user writes, and one simulated run of it.

use std::rc::Rc;

use http::Method;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource as _;
use windlass::manager::Manager;
use windlass_apiserver::ApiServer;

use crate::explore::Explore;
use crate::fault::Fault;
use crate::operator::ProcessHandle;
use crate::process::Time;
use crate::record::Record;
use crate::report::Report;
use crate::server::Server;
use crate::state::{self, State};
use crate::view::{ClusterView, User};
use crate::world::{Check, MakeOperator, World};

/// For how long nothing may change until the world counts as at rest. It is longer than a Lease
/// lasts, and than most operators wait until they look at something again.
pub(crate) const QUIET: Time = 60_000;

/// How long it may take until the world is at rest.
pub(crate) const LIMIT: Time = 30 * 60_000;

/// The longest latency of lines of watches, in milliseconds.
pub(crate) const LATENCY: Time = 25;

/// An operator, a story, and what must hold.
#[must_use = "a simulation does nothing before it is checked"]
pub struct Simulation {
    pub(crate) make: MakeOperator,
    others: Vec<(String, MakeOperator)>,
    definitions: Vec<CustomResourceDefinition>,
    prepare: Vec<Prepare>,
    pub(crate) steps: Vec<Step>,
    checks: Vec<(String, Check)>,
    pub(crate) ignored: Vec<String>,
    pub(crate) explore: Explore,
    quiet: Time,
}

/// Changes the server before anything runs.
type Prepare = Rc<dyn Fn(&ApiServer)>;

pub(crate) struct Step {
    pub(crate) name: String,
    run: Rc<dyn Fn(&mut User<'_>)>,
}

/// How one run goes: the same plan gives the same run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) latency: Time,
    pub(crate) faults: Vec<Fault>,
}

/// What a run has shown.
pub(crate) struct Outcome {
    pub(crate) record: Record,
    /// The state after the start and after each step; `None` while a fault lasted.
    pub(crate) states: Vec<Option<State>>,
    /// What was not at rest, and after which step.
    pub(crate) restless: Option<(usize, String)>,
    /// The faults that never struck.
    pub(crate) unused: usize,
    /// How long it took, in simulated time.
    pub(crate) took: Time,
}

impl Simulation {
    /// A simulation of the operator that `operator` makes. It is called for each process: at the
    /// beginning, and after each crash.
    pub fn new(operator: impl Fn(&ProcessHandle) -> Manager + 'static) -> Self {
        Self {
            make: Rc::new(operator),
            others: Vec::new(),
            definitions: Vec::new(),
            prepare: Vec::new(),
            steps: Vec::new(),
            checks: Vec::new(),
            ignored: Vec::new(),
            explore: Explore::all(),
            quiet: QUIET,
        }
    }

    /// Installs a definition before the operator starts.
    pub fn install(mut self, definition: CustomResourceDefinition) -> Self {
        self.definitions.push(definition);
        self
    }

    /// Changes the API server before the operator starts: for webhooks that it calls in this
    /// process, say.
    pub fn prepare(mut self, prepare: impl Fn(&ApiServer) + 'static) -> Self {
        self.prepare.push(Rc::new(prepare));
        self
    }

    /// Runs another program beside the operator, which meets no faults.
    pub fn beside(
        mut self,
        name: &str,
        program: impl Fn(&ProcessHandle) -> Manager + 'static,
    ) -> Self {
        self.others.push((name.to_owned(), Rc::new(program)));
        self
    }

    /// Adds a step: what people and other programs do, when the world is at rest.
    pub fn step(mut self, name: &str, run: impl Fn(&mut User<'_>) + 'static) -> Self {
        self.steps.push(Step { name: name.to_owned(), run: Rc::new(run) });
        self
    }

    /// Adds an invariant, which is checked after each change of the cluster. The error says what is
    /// wrong.
    pub fn always(
        mut self,
        name: &str,
        check: impl Fn(&ClusterView<'_>) -> Result<(), String> + 'static,
    ) -> Self {
        self.checks.push((name.to_owned(), Rc::new(check)));
        self
    }

    /// Does not compare this field of any object, nor what is below it: `/status/startedAt`.
    pub fn ignore(mut self, field: &str) -> Self {
        self.ignored.push(field.to_owned());
        self
    }

    /// What is explored. Default: [`Explore::all`].
    pub fn explore(mut self, explore: Explore) -> Self {
        self.explore = explore;
        self
    }

    /// For how long nothing may change until the next step. Default: one minute of simulated time.
    /// It must be longer than the operator waits before it looks at something again.
    pub fn quiet(mut self, time: std::time::Duration) -> Self {
        self.quiet = u64::try_from(time.as_millis()).unwrap_or(Time::MAX);
        self
    }

    /// Explores, and fails the test with a report if something is wrong.
    ///
    /// # Panics
    /// If a fault breaks the operator, or if it does not work without faults.
    #[track_caller]
    pub fn check(self) {
        let report = self.search();
        assert!(report.finding().is_none(), "{report}");
        // Shown by `cargo test -- --nocapture`.
        println!("{report}");
    }

    /// Explores, and returns what was found.
    pub fn search(self) -> Report {
        crate::explore::search(&self)
    }

    /// Runs the story once, with the faults of a line that a report has shown, and returns what
    /// happened. The same line gives the same, unless the operator depends on more than its clock,
    /// its seed and its requests.
    ///
    /// # Panics
    /// If the line is not one.
    pub fn story(&self, replay: &str) -> Vec<String> {
        let plan = replay.parse::<Plan>().unwrap_or_else(|error| panic!("{error}"));
        self.run(&plan, true).record.story()
    }

    /// Runs the story once. `tells`: whether it is recorded.
    pub(crate) fn run(&self, plan: &Plan, tells: bool) -> Outcome {
        let mut record = Record::new(tells);
        record.tell(0, || "the cluster starts".to_owned());
        let mut world = World::new(plan.seed, plan.latency, plan.faults.clone(), record);
        for (name, check) in &self.checks {
            world.add_check(name, check);
        }
        world.prepare(|server| {
            self.definitions.iter().for_each(|definition| install(server, definition));
            self.prepare.iter().for_each(|prepare| prepare(server.api()));
        });
        world.add_process("the operator", &self.make);
        for (name, make) in &self.others {
            world.add_process(name, make);
        }
        let (mut states, mut restless) = (Vec::new(), None);
        for number in 0..=self.steps.len() {
            world.begin_step(number);
            if let Some(step) = number.checked_sub(1).map(|index| &self.steps[index]) {
                let now = world.now();
                world.record.tell(now, || format!("STEP {number}: {}", step.name));
                (step.run)(&mut User::new(&mut world));
            }
            restless = self.settle(&mut world, number).or(restless);
            if restless.is_some() {
                break;
            }
            let is_compared = !world.has_active_faults();
            let read = || state::read(&world.server, &world.record.kinds);
            states.push(is_compared.then(read));
        }
        world.note_all_runs();
        let (unused, took) = (world.unused_faults().len(), world.now());
        Outcome { record: world.record, states, restless, unused, took }
    }

    /// Waits until the world is at rest, and ends the faults that last until this step.
    fn settle(&self, world: &mut World, step: usize) -> Option<(usize, String)> {
        loop {
            let settled = world.settle(self.quiet, LIMIT);
            if !world.has_active_faults() {
                return settled.err().map(|error| (step, error));
            }
            world.end_step(step == self.steps.len());
            if world.has_active_faults() {
                return None;
            }
        }
    }

    /// The names of the steps; the first is the start.
    pub(crate) fn step_name(&self, step: usize) -> &str {
        match step.checked_sub(1) {
            Some(index) => &self.steps[index].name,
            None => "the start",
        }
    }
}

fn install(server: &Server, definition: &CustomResourceDefinition) {
    let mut body = serde_json::to_value(definition).expect("a definition must encode");
    body["apiVersion"] = "apiextensions.k8s.io/v1".into();
    body["kind"] = "CustomResourceDefinition".into();
    let uri = CustomResourceDefinition::url_path(&(), None);
    let made = server.ask_json(Method::POST, &uri, "application/json", &body);
    assert!(made.is_ok(), "the definition is refused: {}", made.expect_err("it is refused"));
}
