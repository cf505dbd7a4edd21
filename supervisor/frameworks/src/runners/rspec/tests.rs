//! Plans of the RSpec adapter, and its reading of Ruby's and Bundler's messages.

use super::*;
use proctor_core::filter::Filter;
use proctor_core::request::RerunTarget;
use proctor_core::test_case::TestId;

fn tree(lock: &str) -> FileTree {
    let mut tree =
        FileTree::with_contents(&[("gem/.rspec", ""), ("gem/Gemfile", "gem 'rspec'"), ("gem/Gemfile.lock", lock)]);
    for file in [
        "gem/spec/calc_spec.rb",
        "gem/spec/models/user_spec.rb",
        "gem/lib/calc.rb",
        "gem/app/models/user.rb",
        "gem/lib/x.rb",
    ] {
        tree.add(file);
    }
    tree
}

fn planned(lock: &str, selection: &Selection) -> Result<Plan, PlanError> {
    let tree = tree(lock);
    Rspec.plan(&Rspec.detect(&tree), &tree, &PlanRequest::plain(selection))
}

fn lines(selection: &Selection) -> Vec<String> {
    let plan = planned("", selection).unwrap();
    plan.steps.iter().map(|step| format!("{}: {} {}", step.dir, step.programs[0], step.args.join(" "))).collect()
}

fn matching(filter: &str, files: &[&str]) -> Selection {
    let files = files.iter().map(|&file| file.to_owned()).collect();
    Selection::Matching { filter: Filter::parse(filter).unwrap(), files }
}

#[test]
fn runs_under_bundler_where_the_lock_names_rspec() {
    assert_eq!(lines(&Selection::All), ["gem: ruby /s/rspec/start.rb"]);
    let bundled = planned("    rspec-core (3.12.0)\n", &Selection::All).unwrap();
    assert_eq!(bundled.steps[0].programs, ["bundle"]);
    assert_eq!(bundled.steps[0].args, ["exec", "ruby", "/s/rspec/start.rb"]);
    assert_eq!(bundled.steps[0].env["PROCTOR_REPORT"], "/s/report");
    assert!(bundled.report && !bundled.steps[0].env.contains_key("PROCTOR_ASKED"));
}

#[test]
fn files_select_their_specs() {
    let run = "gem: ruby /s/rspec/start.rb";
    assert_eq!(lines(&matching("adds two", &[])), [format!("{run} --example=adds two")]);
    assert_eq!(lines(&matching("", &["gem/spec/calc_spec.rb"])), [format!("{run} ./spec/calc_spec.rb")]);
    assert_eq!(lines(&matching("", &["gem/lib/calc.rb"])), [format!("{run} ./spec/calc_spec.rb")]);
    assert_eq!(lines(&matching("", &["gem/app/models/user.rb"])), [format!("{run} ./spec/models/user_spec.rb")]);
    assert_eq!(
        lines(&matching("", &["gem/spec/models", "gem/spec/models/user_spec.rb"])),
        [format!("{run} ./spec/models")]
    );
    assert_eq!(lines(&matching("", &["gem"])), [run]);
    assert_eq!(lines(&matching("", &["gem/lib/x.rb", "gem/spec/calc_spec.rb"])), [run]);
    let notes = planned("", &matching("", &["gem/lib/x.rb"])).unwrap().notes;
    assert_eq!(notes, ["no spec is named after gem/lib/x.rb: all specs of its project run"]);
    for outside in ["../x.rb", "/x.rb", "other.rb", "gem/spec/gone_spec.rb"] {
        assert!(planned("", &matching("", &[outside])).is_err(), "{outside}");
    }
}

#[test]
fn reruns_exactly_the_failed_examples() {
    let test =
        |name: &str| RerunTarget::Test(TestId { package: "gem/spec/calc_spec.rb".to_owned(), name: name.to_owned() });
    let models = RerunTarget::Package("gem/spec/models/user_spec.rb".to_owned());
    let selection = Selection::Exactly(vec![test("Calc > fails"), test("Calc > adds"), models]);
    let plan = planned("", &selection).unwrap();
    assert_eq!(plan.steps[0].args[1..], ["./spec/calc_spec.rb", "./spec/models/user_spec.rb"]);
    assert_eq!(plan.steps[0].env["PROCTOR_SELECTION"], "/s/rspec/selection-0");
    let file = plan.files.iter().find(|file| file.path == "rspec/selection-0").unwrap();
    let expected = "spec/calc_spec.rb\tCalc > adds\nspec/calc_spec.rb\tCalc > fails\nspec/models/user_spec.rb\t\n";
    assert_eq!(String::from_utf8_lossy(&file.bytes), expected);
    let gone = Selection::Exactly(vec![RerunTarget::Package("gem/spec/gone_spec.rb".to_owned())]);
    assert_eq!(lines(&gone), ["gem: ruby /s/rspec/start.rb"], "a deleted file is only covered by everything");
}

#[test]
fn a_listing_sets_its_variable() {
    let tree = tree("");
    let (projects, selection) = (Rspec.detect(&tree), Selection::All);
    let listing = Rspec.plan_listing(&projects, &tree, &PlanRequest::plain(&selection)).unwrap();
    assert_eq!(listing.steps[0].env["PROCTOR_LISTING"], "1");
}

#[test]
fn reads_the_messages_of_a_run_that_cannot_start() {
    let absent =
        missing("proctor: rspec is not installed for this project's Ruby (x): install its gems (bundle install)\n");
    assert!(absent.unwrap().starts_with("rspec is not installed"));
    let gems = missing("Could not find rspec-3.13.0 in locally installed gems\nRun `bundle install`\n").unwrap();
    assert!(gems.starts_with("Could not find rspec-3.13.0 in locally installed gems: a run sees"), "{gems}");
    assert_eq!(missing("rspec: command failed"), None);
    let thrown = "/usr/lib/ruby/gems/x.rb:1:in `y'\n/ws/spec/a_spec.rb:3:in `<main>': boom (RuntimeError)\n\tfrom /ws/b.rb:1:in `x'\n";
    assert_eq!(blamed(thrown), Some(("/ws/spec/a_spec.rb".to_owned(), 3)));
    assert_eq!(reason(thrown).as_deref(), Some("boom (RuntimeError)"));
    let below = "Line coverage (50.00%) is below the expected minimum coverage (90.00%).";
    assert_eq!(unmet(&format!("3 examples, 0 failures\n{below}\n")).as_deref(), Some(below));
}
