//! The frameworks of one run: plans their commands one after the other and combines their parsers.

use crate::contract::FileTree;
use crate::contract::Toolchain;
use crate::contract::{
    CoverageHarvest, Framework, NameScope, OptionSupport, ParallelSupport, Parser, Plan, PlanError, PlanRequest,
    StackOutput, Step, StreamSummary,
};
use crate::contract::{Project, owns_source};
use crate::parsing::loaded_sources::LoadedSources;
use crate::parsing::stack_frames::declared_test;
use crate::run::remedy_parser::RemedyParser;
use proctor_core::artifact::ArtifactKind;
use proctor_core::bounds::HUNG_TESTS_MAX;
use proctor_core::event::RunnerEvent;
use proctor_core::filter::Filter;
use proctor_core::hung_test::HungTest;
use proctor_core::outcome::Exit;
use proctor_core::proof::Proof;
use proctor_core::request::{BrowserOptions, RerunTarget, RunKind, Selection};
use proctor_core::test_case::{TestId, TestOutcome};
use proctor_core::test_name::TestName;
use std::collections::{BTreeMap, BTreeSet};

/// A framework and its projects in one workspace.
#[derive(Clone)]
pub struct DetectedFramework {
    /// The adapter.
    pub framework: &'static dyn Framework,
    /// Its projects, at least one.
    pub projects: Vec<Project>,
}

impl DetectedFramework {
    /// See [`Framework::resolve_names`].
    pub(crate) fn resolve_names(&self, tree: &FileTree, names: &[TestName]) -> Vec<RerunTarget> {
        self.framework.resolve_names(&self.projects, tree, names)
    }

    /// Whether a file or directory belongs to one of its projects.
    pub(crate) fn owns(&self, tree: &FileTree, path: &str) -> bool {
        owns_source(self.framework.manifest().extensions, &self.projects, tree, path)
    }
}

/// The frameworks chosen for a run, at least one.
#[derive(Clone)]
pub struct FrameworkChoice {
    pub(crate) detected: Vec<DetectedFramework>,
    /// Sentences about projects and frameworks that were left out.
    pub(crate) notes: Vec<String>,
}

impl FrameworkChoice {
    /// Their names as a report shows them: `go`, or `go, pytest`.
    #[must_use]
    pub fn name(&self) -> String {
        self.names().join(", ")
    }

    /// Their names.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        self.detected.iter().map(|detected| detected.framework.name()).collect()
    }

    /// See [`Manifest::build_error_hides_tests`](crate::Manifest::build_error_hides_tests). Of several frameworks it is not known which one did not build.
    #[must_use]
    pub fn build_error_hides_tests(&self) -> bool {
        self.detected.iter().any(|detected| detected.framework.manifest().build_error_hides_tests)
    }

    /// Wall time in milliseconds of a run that requests none: that of the slowest framework. `configured` is the operator's
    /// setting for a framework, `default_ms` applies to frameworks without a setting or a default of their own.
    pub fn default_wall_ms(&self, configured: impl Fn(&str) -> Option<u64>, default_ms: u64) -> u64 {
        let each = self.detected.iter().map(|DetectedFramework { framework, .. }| {
            configured(framework.name()).or_else(|| framework.manifest().default_wall_ms).unwrap_or(default_ms)
        });
        each.max().unwrap_or(default_ms)
    }

    /// The toolchain of which plans change sources, if any.
    #[must_use]
    pub fn toolchain_with_sources(&self) -> Option<&'static Toolchain> {
        let toolchains = self.detected.iter().flat_map(|detected| detected.framework.manifest().toolchains);
        toolchains.copied().find(|toolchain| !toolchain.sources.is_empty())
    }

    /// Plans the commands and creates the parser. A framework without a part of the selection has no command.
    pub fn plan(
        &self,
        kind: RunKind,
        tree: &FileTree,
        request: &PlanRequest<'_>,
        browsing: BrowserOptions,
    ) -> Result<(Plan, Box<dyn Parser>), PlanError> {
        if let [only] = self.detected.as_slice() {
            let (mut plan, parser) = plan(only, kind, tree, request, browsing)?;
            plan.notes.extend(self.notes.iter().cloned());
            return Ok((plan, parser));
        }
        let mut all = Plan { notes: self.notes.clone(), ..Plan::default() };
        let is_scoped = kind == RunKind::Tests && !request.scope.is_everything();
        let mut multi = MultiParser { parts: Vec::new(), owners: Vec::new(), current: 0, is_scoped };
        for (selection, detected) in self.split_selection(tree, request.selection).iter().zip(&self.detected) {
            let Some(selection) = selection else { continue };
            let (plan, parser) = plan(detected, kind, tree, &PlanRequest { selection, ..request.clone() }, browsing)?;
            let part = multi.parts.len();
            multi.owners.extend((0..plan.steps.len()).map(|step| (part, step)));
            let name = detected.framework.name();
            multi.parts.push(Part { name, parser, steps: plan.steps.len(), has_executed: false });
            all.absorb(plan);
        }
        Ok((all, Box::new(multi)))
    }

    /// The selection with each name of a test replaced by the test that it stands for.
    #[must_use]
    pub fn resolve(&self, tree: &FileTree, selection: &Selection) -> Selection {
        let Selection::Named(names) = selection else { return selection.clone() };
        let resolved: Vec<Vec<RerunTarget>> = self.detected.iter().map(|one| one.resolve_names(tree, names)).collect();
        let is_located = |target: &&RerunTarget| target.package().is_some();
        let find = |index: usize| {
            let mut candidates = resolved.iter().filter_map(|targets| targets.get(index));
            candidates.clone().find(is_located).or_else(|| candidates.next()).cloned()
        };
        Selection::Exactly((0..names.len()).filter_map(find).collect())
    }

    /// The part of `selection` for each framework; `None` for nothing.
    fn split_selection(&self, tree: &FileTree, selection: &Selection) -> Vec<Option<Selection>> {
        let of = |detected: &DetectedFramework| match selection {
            Selection::Matching { filter, files }
                if !files.is_empty() && detected.framework.manifest().options.selection =>
            {
                let own = files.iter().filter(|file| detected.owns(tree, file)).cloned();
                let files: Vec<String> = own.collect();
                (!files.is_empty()).then(|| Selection::Matching { filter: filter.clone(), files })
            }
            Selection::Exactly(targets) => {
                // A name without a package may be in any of them.
                let owns = |target: &&RerunTarget| {
                    target
                        .package()
                        .is_none_or(|package| detected.framework.owns_package(&detected.projects, tree, package))
                };
                let own: Vec<RerunTarget> = targets.iter().filter(owns).cloned().collect();
                (!own.is_empty()).then_some(Selection::Exactly(own))
            }
            Selection::Matching { .. } if !detected.framework.manifest().options.selection => {
                let is_all = matches!(selection, Selection::Matching { filter: None, files } if files.is_empty());
                is_all.then(|| selection.clone())
            }
            other => Some(other.clone()),
        };
        let shares: Vec<Option<Selection>> = self.detected.iter().map(of).collect();
        // If no framework owns any of it, each plans the whole selection and reports its own error.
        if shares.iter().all(Option::is_none) { vec![Some(selection.clone()); self.detected.len()] } else { shares }
    }

    /// Where the running tests hang, from the stacks that were printed at the deadline. A test without a stack in any framework's
    /// form has the place where it is declared, if the framework of that file shows such places.
    #[must_use]
    pub fn hung_tests(&self, output: &StackOutput<'_>) -> Vec<HungTest> {
        let dumps = self.detected.iter().filter_map(|detected| detected.framework.manifest().stack_dump);
        let read = dumps.flat_map(|dump| (dump.read)(output));
        let declared = output
            .declared
            .iter()
            .filter_map(|(test, file, line)| Some(declared_test(test, file, *line, self.declared_note(file)?)));
        let mut hung: Vec<HungTest> = Vec::new();
        for found in read.chain(declared) {
            if hung.len() < HUNG_TESTS_MAX && hung.iter().all(|known| known.test != found.test) {
                hung.push(found);
            }
        }
        hung
    }

    /// What the framework that has such files says of the place where a test is declared.
    fn declared_note(&self, file: &str) -> Option<&'static str> {
        let extension = file.rsplit_once('.')?.1;
        let manifests = self.detected.iter().map(|detected| detected.framework.manifest());
        let mut owners = manifests.filter(|manifest| manifest.extensions.contains(&extension));
        owners.find_map(|manifest| manifest.stack_dump?.declared_note)
    }

    /// Coverage from the files that the run left.
    #[must_use]
    pub fn ingest_coverage(
        &self,
        workspace: &str,
        files: &[(String, Vec<u8>)],
        finished: &BTreeMap<String, BTreeSet<String>>,
    ) -> CoverageHarvest {
        let (mut all, mut sources) = (CoverageHarvest::default(), LoadedSources::default());
        let measured = |detected: &&DetectedFramework| detected.framework.manifest().options.coverage;
        for DetectedFramework { framework, projects } in self.detected.iter().filter(measured) {
            let harvest = framework.ingest_coverage(projects, workspace, files, finished);
            all.measured.extend(harvest.measured);
            all.notes.extend(harvest.notes);
            // Tests of one framework alone are selected by it.
            all.loaded = harvest.loaded;
            // Two frameworks may load the same file.
            for source in harvest.sources {
                sources.add(&source.path, source.executable.as_deref());
            }
        }
        CoverageHarvest { sources: sources.into_vec(), ..all }
    }
}

fn plan(
    detected: &DetectedFramework,
    kind: RunKind,
    tree: &FileTree,
    request: &PlanRequest<'_>,
    browsing: BrowserOptions,
) -> Result<(Plan, Box<dyn Parser>), PlanError> {
    let DetectedFramework { framework, projects } = detected;
    let scoped = apply_scope(*framework, request)?;
    let request = &PlanRequest { selection: scoped.as_ref().unwrap_or(request.selection), ..request.clone() };
    Ok(match kind {
        RunKind::Tests => {
            let OptionSupport { parallel, browsers, orders, .. } = framework.manifest().options;
            let not_applicable = |option| PlanError::NotApplicable { option, framework: framework.name() };
            if request.parallel.is_some() && parallel == ParallelSupport::Refused {
                return Err(not_applicable("parallel"));
            }
            if !orders.has(request.order) {
                return Err(not_applicable("the order"));
            }
            let mut plan = framework.plan(projects, tree, request)?;
            if let (Some(_), ParallelSupport::NoEffect(note)) = (request.parallel, parallel) {
                plan.notes.push(note.to_owned());
            }
            match browsing.requested_option() {
                Some(option) if browsers => framework.apply_browser_options(tree, &mut plan, option, browsing)?,
                Some(option) => return Err(not_applicable(option)),
                None => {}
            }
            let asked = framework.manifest().stack_dump.and_then(|dump| dump.source.plan(request));
            let (stacks, file) = asked.unzip();
            plan.files.extend(file.flatten());
            plan.stack_requests = vec![stacks; plan.steps.len()];
            let parser = framework.parser(&plan, request);
            let parser = RemedyParser::new(parser, request.network, framework.missing_build_outputs(tree, projects));
            (plan, Box::new(parser))
        }
        RunKind::Listing => {
            let plan = framework.plan_listing(projects, tree, request)?;
            let parser = framework.listing_parser(&plan, request);
            (plan, Box::new(RemedyParser::new(parser, request.network, Vec::new())))
        }
        // Checks are planned in `checks`.
        RunKind::Check => return Err(PlanError::NotApplicable { option: "a check", framework: framework.name() }),
    })
}

/// The selection with the scope's names as a filter, where the framework takes them so. An error for a scope that it cannot apply.
fn apply_scope(framework: &dyn Framework, request: &PlanRequest<'_>) -> Result<Option<Selection>, PlanError> {
    let OptionSupport { scope: support, .. } = framework.manifest().options;
    if let Some((key, what, entry)) = request.scope.unsupported(support) {
        return Err(PlanError::ScopeNotApplicable { key, entry: entry.to_owned(), what, framework: framework.name() });
    }
    let filter = request.scope.title_filter().filter(|_| support.names == NameScope::Titles);
    Ok(filter.map(|filter| Selection::Matching { filter: Some(Filter::from_expression(filter)), files: Vec::new() }))
}

impl Plan {
    /// Appends another plan.
    fn absorb(&mut self, other: Plan) {
        self.steps.extend(other.steps);
        self.stack_requests.extend(other.stack_requests);
        self.files.extend(other.files);
        self.dirs.extend(other.dirs);
        self.notes.extend(other.notes);
        self.report |= other.report;
        self.artifacts |= other.artifacts;
    }
}

/// One framework's parser.
struct Part {
    /// The framework's name.
    name: &'static str,
    parser: Box<dyn Parser>,
    /// How many steps it has so far.
    steps: usize,
    /// Whether a test ended otherwise than by being skipped.
    has_executed: bool,
}

impl Part {
    /// Lets the parser add events, and notes whether these are of executed tests.
    fn parse(&mut self, events: &mut Vec<RunnerEvent>, parse: impl FnOnce(&mut dyn Parser, &mut Vec<RunnerEvent>)) {
        let before = events.len();
        parse(self.parser.as_mut(), events);
        let is_executed = |event: &RunnerEvent| match event {
            RunnerEvent::TestFinished(test) => test.outcome != TestOutcome::Skipped,
            RunnerEvent::TestStarted(_) | RunnerEvent::Collector(_) => false,
        };
        self.has_executed |= events.iter().skip(before).any(is_executed);
    }
}

/// Passes each step's output to the parser of its framework.
struct MultiParser {
    parts: Vec<Part>,
    /// For each step: the index in `parts`, and the step's number within that part.
    owners: Vec<(usize, usize)>,
    current: usize,
    /// Whether the run's scope leaves out tests.
    is_scoped: bool,
}

impl MultiParser {
    fn current(&mut self) -> Option<&mut Part> {
        self.parts.get_mut(self.current)
    }
}

impl Parser for MultiParser {
    fn step_started(&mut self, step: usize) {
        let Some(&(part, own)) = self.owners.get(step) else { return };
        self.current = part;
        if let Some(part) = self.current() {
            part.parser.step_started(own);
        }
    }

    fn stdout(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        if let Some(part) = self.current() {
            part.parse(events, |parser, events| parser.stdout(bytes, events));
        }
    }

    fn stderr(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        if let Some(part) = self.current() {
            part.parse(events, |parser, events| parser.stderr(bytes, events));
        }
    }

    fn report(&mut self, bytes: &[u8], events: &mut Vec<RunnerEvent>) {
        if let Some(part) = self.current() {
            part.parse(events, |parser, events| parser.report(bytes, events));
        }
    }

    fn stacks_requested(&mut self) {
        if let Some(part) = self.current() {
            part.parser.stacks_requested();
        }
    }

    fn step_ended(&mut self, exit: Exit, killed: bool, events: &mut Vec<RunnerEvent>) {
        if let Some(part) = self.current() {
            part.parse(events, |parser, events| parser.step_ended(exit, killed, events));
        }
    }

    fn files(&mut self, files: &[(String, Vec<u8>)], events: &mut Vec<RunnerEvent>) {
        for part in &mut self.parts {
            part.parse(events, |parser, events| parser.files(files, events));
        }
    }

    fn follow_up(&mut self) -> Vec<Step> {
        let owner = self.current;
        let Some(part) = self.parts.get_mut(owner) else { return Vec::new() };
        let steps = part.parser.follow_up();
        self.owners.extend((part.steps..part.steps + steps.len()).map(|own| (owner, own)));
        part.steps += steps.len();
        steps
    }

    fn nothing_selected(&self) -> bool {
        self.parts.get(self.current).is_some_and(|part| part.parser.nothing_selected())
    }

    fn artifact_source(&self, path: &str) -> Option<(ArtifactKind, TestId)> {
        self.parts.iter().find_map(|part| part.parser.artifact_source(path))
    }

    fn running(&self) -> Vec<TestId> {
        self.parts.iter().flat_map(|part| part.parser.running()).collect()
    }

    fn total(&self) -> Option<u64> {
        let with_steps = self.parts.iter().filter(|part| part.steps > 0);
        with_steps.map(|part| part.parser.total()).try_fold(0_u64, |sum, total| sum.checked_add(total?))
    }

    fn declared_at(&self, test: &TestId) -> Option<(String, u32)> {
        self.parts.iter().find_map(|part| part.parser.declared_at(test))
    }

    fn flaky(&self) -> u64 {
        self.parts.iter().map(|part| part.parser.flaky()).sum()
    }

    fn summary(&self) -> StreamSummary {
        let all: Vec<StreamSummary> = self.parts.iter().map(|part| part.parser.summary()).collect();
        // A framework without a command has nothing to prove.
        let proofs = self.parts.iter().zip(&all).filter(|(part, _)| part.steps > 0).map(|(_, one)| one.proof);
        let is_idle = |part: &&Part| self.is_scoped && !part.has_executed;
        StreamSummary {
            idle_frameworks: self.parts.iter().filter(is_idle).map(|part| part.name).collect(),
            structured: all.iter().all(|one| one.structured),
            proof: proofs.reduce(Proof::and).unwrap_or_default(),
            unreached: all.iter().any(|one| one.unreached),
            runner_missing: all.iter().any(|one| one.runner_missing),
            not_built: all.iter().flat_map(|one| one.not_built.iter().cloned()).collect(),
            notes: all.into_iter().flat_map(|one| one.notes).collect(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::{EVERYTHING, Framework, Manifest, ScopeGlobs, ScopeSupport, TestScope};
    use proctor_core::test_case::TestCase;

    /// Plans one step per requested file, package or `all`, and follows up with one more step. Its source files have its name as
    /// their extension.
    pub(crate) struct FakeFramework(&'static Manifest);

    struct FakeParser {
        name: &'static str,
        steps: Vec<usize>,
        more: bool,
    }

    impl Framework for FakeFramework {
        fn manifest(&self) -> &'static Manifest {
            self.0
        }

        fn detect(&self, _: &FileTree) -> Vec<Project> {
            vec![Project { dir: String::new(), name: self.name().to_owned() }]
        }

        fn plan(&self, _: &[Project], _: &FileTree, request: &PlanRequest<'_>) -> Result<Plan, PlanError> {
            let args = match request.selection {
                Selection::Matching { files, .. } => files.clone(),
                Selection::Exactly(targets) => {
                    targets.iter().filter_map(|target| target.package().map(str::to_owned)).collect()
                }
                _ => vec!["all".to_owned()],
            };
            let step = |arg| Step {
                programs: vec![self.name().into()],
                args: vec![arg],
                dir: String::new(),
                env: BTreeMap::new(),
            };
            Ok(Plan { steps: args.into_iter().map(step).collect(), ..Plan::default() })
        }

        fn plan_listing(&self, _: &[Project], _: &FileTree, _: &PlanRequest<'_>) -> Result<Plan, PlanError> {
            Ok(Plan::default())
        }

        fn parser(&self, _: &Plan, _: &PlanRequest<'_>) -> Box<dyn Parser> {
            Box::new(FakeParser { name: self.name(), steps: Vec::new(), more: true })
        }
    }

    impl Parser for FakeParser {
        fn step_started(&mut self, step: usize) {
            self.steps.push(step);
        }

        /// Each text is the name of a test that passed, or of one that was skipped if it begins with `-`.
        fn stdout(&mut self, text: &[u8], events: &mut Vec<RunnerEvent>) {
            let id = TestId { package: self.name.to_owned(), name: String::from_utf8_lossy(text).into_owned() };
            let outcome = if text.starts_with(b"-") { TestOutcome::Skipped } else { TestOutcome::Passed };
            events.push(RunnerEvent::TestFinished(Box::new(TestCase::new(id, String::new(), outcome))));
        }

        fn stderr(&mut self, _: &[u8], _: &mut Vec<RunnerEvent>) {}

        fn step_ended(&mut self, _: Exit, _: bool, _: &mut Vec<RunnerEvent>) {}

        fn follow_up(&mut self) -> Vec<Step> {
            let step =
                Step { programs: vec![self.name.into()], args: vec![], dir: String::new(), env: BTreeMap::new() };
            if std::mem::take(&mut self.more) { vec![step] } else { Vec::new() }
        }

        fn running(&self) -> Vec<TestId> {
            Vec::new()
        }

        fn summary(&self) -> StreamSummary {
            let notes = vec![format!("{} {:?}", self.name, self.steps)];
            let proof = if self.name == "b" { Proof::Missing } else { Proof::Shown { tests: 1 } };
            StreamSummary { structured: true, proof, notes, ..StreamSummary::default() }
        }
    }

    const NAMES: OptionSupport =
        OptionSupport { scope: ScopeSupport { names: NameScope::Adapter, files: false }, ..Manifest::DEFAULT.options };
    pub(crate) static A: FakeFramework =
        FakeFramework(&Manifest { name: "a", extensions: &["a"], options: NAMES, ..Manifest::DEFAULT });
    pub(crate) static B: FakeFramework = FakeFramework(&Manifest {
        name: "b",
        extensions: &["b"],
        options: NAMES,
        default_wall_ms: Some(20),
        ..Manifest::DEFAULT
    });

    fn planned(selection: &Selection) -> (Vec<String>, Box<dyn Parser>) {
        planned_within(&EVERYTHING, selection)
    }

    fn planned_within(scope: &TestScope, selection: &Selection) -> (Vec<String>, Box<dyn Parser>) {
        let mut tree = FileTree::default();
        ["x.a", "y.b", "z.b"].iter().for_each(|file| tree.add(*file));
        let chosen = [&A, &B].map(|framework| DetectedFramework { framework, projects: framework.detect(&tree) });
        let request = PlanRequest { workspace: "/ws", scope, ..PlanRequest::plain(selection) };
        let (plan, parser) = FrameworkChoice { detected: chosen.into(), notes: Vec::new() }
            .plan(RunKind::Tests, &tree, &request, BrowserOptions::default())
            .unwrap();
        (plan.steps.iter().map(|step| format!("{} {}", step.programs[0], step.args[0])).collect(), parser)
    }

    #[test]
    fn each_framework_plans_its_own_part_of_the_selection() {
        assert_eq!(planned(&Selection::All).0, ["a all", "b all"]);
        let files = |files: &[&str]| Selection::Matching {
            filter: None,
            files: files.iter().map(|file| (*file).to_owned()).collect(),
        };
        assert_eq!(planned(&files(&["z.b", "x.a"])).0, ["a x.a", "b z.b"]);
        assert_eq!(planned(&files(&["z.b"])).0, ["b z.b"]);
        assert_eq!(planned(&files(&["unknown"])).0, ["a unknown", "b unknown"]);
        let failed = ["y.b", "x.a"].map(|file| RerunTarget::Package(file.to_owned()));
        assert_eq!(planned(&Selection::Exactly(failed.into())).0, ["a x.a", "b y.b"]);
    }

    #[test]
    fn a_place_where_a_test_is_declared_replaces_no_frameworks_stack() {
        let named = |name| {
            let framework = *crate::FRAMEWORKS.iter().find(|framework| framework.name() == name).unwrap();
            DetectedFramework { framework, projects: Vec::new() }
        };
        let test = |package: &str, name: &str| TestId { package: package.to_owned(), name: name.to_owned() };
        let running =
            [test("a.test.js", "waits"), test("tests/ATest.php", "ATest::testHangs"), test("test_a.py", "test_b")];
        let declared: Vec<(TestId, String, u32)> =
            running.iter().map(|test| (test.clone(), test.package.clone(), 3)).collect();
        let stderr = "Thread (most recent call first):\n  File \"/w/src/A.php\", line 7 in wait\n  \
                      File \"/w/tests/ATest.php\", line 9 in testHangs\n  File \"/w/vendor/phpunit/phpunit/src/Framework/TestCase.php\", line 1 in run\n";
        let output =
            StackOutput { stderr, running: &running, declared: &declared, workspace: "/w", ..StackOutput::default() };
        for names in [["jest", "phpunit"], ["phpunit", "jest"]] {
            let detected = [names[0], names[1], "pytest"].map(named).to_vec();
            let hung = FrameworkChoice { detected, notes: Vec::new() }.hung_tests(&output);
            let places: Vec<(&str, Option<u32>)> =
                hung.iter().map(|hung| (hung.test.name.as_str(), hung.line)).collect();
            assert_eq!(places, [("ATest::testHangs", Some(7)), ("waits", Some(3))], "{names:?}");
            assert!(hung[1].stack.contains("a promise or a callback"), "{names:?}: {}", hung[1].stack);
        }
    }

    #[test]
    fn the_wall_time_is_that_of_the_slowest_framework() {
        let of = |frameworks: &[&'static FakeFramework], set: &[(&str, u64)]| {
            let detected = frameworks.iter().map(|&framework| DetectedFramework { framework, projects: Vec::new() });
            let set = |name: &str| set.iter().find(|(framework, _)| *framework == name).map(|(_, ms)| *ms);
            FrameworkChoice { detected: detected.collect(), notes: Vec::new() }.default_wall_ms(set, 10)
        };
        assert_eq!((of(&[&A], &[]), of(&[&B], &[]), of(&[&A, &B], &[])), (10, 20, 20));
        assert_eq!((of(&[&A], &[("a", 5)]), of(&[&B], &[("b", 5)]), of(&[&A, &B], &[("a", 30)])), (5, 5, 30));
    }

    #[test]
    fn each_parser_gets_its_own_steps_and_its_follow_ups() {
        let (_, mut parser) = planned(&Selection::All);
        for step in 0..2 {
            parser.step_started(step);
            parser.step_ended(Exit::Code(0), false, &mut Vec::new());
            assert_eq!(parser.follow_up().len(), 1);
            assert!(parser.follow_up().is_empty());
        }
        parser.step_started(3);
        parser.step_started(2);
        let summary = parser.summary();
        assert_eq!(summary.notes, ["a [0, 1]", "b [0, 1]"]);
        assert!(summary.proof.is_missing() && summary.structured);
    }

    #[test]
    fn a_framework_of_which_a_scope_leaves_no_test_is_idle() {
        let scope = TestScope { exclude: ScopeGlobs::parse(&["slow".to_owned()]).unwrap(), ..TestScope::default() };
        for (scope, texts, idle) in
            [(&scope, ["x", "-x"], &["b"][..]), (&scope, ["x", "x"], &[]), (&EVERYTHING, ["x", "-x"], &[])]
        {
            let (_, mut parser) = planned_within(scope, &Selection::All);
            for (step, text) in texts.iter().enumerate() {
                parser.step_started(step);
                parser.stdout(text.as_bytes(), &mut Vec::new());
            }
            assert_eq!(parser.summary().idle_frameworks, idle);
        }
    }
}
