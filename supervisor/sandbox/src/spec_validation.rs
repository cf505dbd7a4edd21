//! Rejects a specification that breaks its own rules, before anything is made or started. Pure: does not look at the
//! host.

use crate::error::SandboxError;
use crate::spec::{COMMANDS_MAX, CommandSpec, RunSpec, SCRATCH, SCRATCH_WRITABLE, StackRequest};
use proctor_core::bounds::REPLACED_FILE_BYTES_MAX;
use proctor_core::limits::Limits;
use std::path::{Component, Path};

/// Most bytes of scratch files: helper files of a few KiB, and a list of tests of up to some MiB.
const SCRATCH_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Host directories that every run has its own private instance of, which hides the host's content.
pub(crate) const TMP: &str = "/tmp";
pub(crate) const SHM: &str = "/dev/shm";

/// Rules for paths, in words for users. The path itself is left out: it may be a host path.
const PLAIN_ABSOLUTE: &str = "must be absolute, valid UTF-8, and without '..' or a NUL character";
const PLAIN_RELATIVE: &str = "must be relative, not empty, and without '.', '..' or a NUL character";

/// Checks every rule of [`RunSpec`] that can be checked without the host.
pub(crate) fn validate(spec: &RunSpec) -> Result<(), SandboxError> {
    let refuse = |reason: String| Err(SandboxError::InvalidSpec { reason });
    if spec.commands.is_empty() {
        return refuse("it has no command".into());
    }
    if spec.commands.len() > COMMANDS_MAX {
        return refuse(format!("it has {} commands, more than {COMMANDS_MAX}", spec.commands.len()));
    }
    for (index, command) in spec.commands.iter().enumerate() {
        if let Err(rule) = command_rule(command) {
            return refuse(format!("command {index}: {rule}"));
        }
    }
    if spec.stack_requests.len() > spec.commands.len() {
        return refuse("it has more requests for stacks than commands".into());
    }
    for (index, request) in spec.stack_requests.iter().enumerate() {
        if let Some(StackRequest::Program(program)) = request
            && let Err(rule) = command_rule(program)
        {
            return refuse(format!("the program that prints stacks of command {index}: {rule}"));
        }
    }
    if !is_plain_absolute(&spec.jail.workspace) {
        return refuse(format!("the path of the workspace {PLAIN_ABSOLUTE}"));
    }
    if spec.jail.workspace == Path::new("/") {
        return refuse("the workspace cannot be the root of the host".into());
    }
    if let Some(private_dir) =
        [TMP, SHM, SCRATCH].iter().find(|private_dir| spec.jail.workspace == Path::new(private_dir))
    {
        return refuse(format!("the workspace cannot be {private_dir} itself: each run has its own, empty one"));
    }
    if !spec.jail.read_only.iter().chain(&spec.jail.writable).all(|path| is_plain_absolute(path)) {
        return refuse(format!("the path of a read-only or writable directory {PLAIN_ABSOLUTE}"));
    }
    if let Some(replaced) = &spec.jail.replaced_file {
        if !is_plain_relative(&replaced.path) {
            return refuse(format!("the path of a replaced file {PLAIN_RELATIVE}"));
        }
        if replaced.text.len() > REPLACED_FILE_BYTES_MAX {
            return refuse(format!("a replaced file is larger than {REPLACED_FILE_BYTES_MAX} bytes"));
        }
    }
    if let Err(rule) = scratch_rule(spec).and_then(|()| limits_rule(&spec.limits)) {
        return refuse(rule);
    }
    Ok(())
}

fn command_rule(command: &CommandSpec) -> Result<(), String> {
    if !is_plain_absolute(&command.program) {
        return Err(format!("the path of its program {PLAIN_ABSOLUTE}"));
    }
    if !is_plain_absolute(&command.dir) {
        return Err(format!("the path of its working directory {PLAIN_ABSOLUTE}"));
    }
    if let Some(index) = command.args.iter().position(|arg| arg.contains('\0')) {
        return Err(format!("its argument {index} contains a NUL character"));
    }
    let name_ok = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    if !command.env.iter().all(|(name, value)| name_ok(name) && !value.contains('\0')) {
        return Err("an environment variable has an empty name, a name with '=', or a NUL character".into());
    }
    Ok(())
}

fn scratch_rule(spec: &RunSpec) -> Result<(), String> {
    let files = spec.scratch_files.iter().map(|file| file.path.as_str());
    let dirs = spec.scratch_dirs.iter().map(String::as_str);
    let links = spec.jail.links.iter().map(|(path, _)| path.as_str());
    if !files.chain(dirs).chain(links).all(is_plain_relative) {
        return Err(format!("the path of a scratch file or directory {PLAIN_RELATIVE}"));
    }
    if !spec.artifacts.is_empty() && !is_plain_relative(&spec.artifacts) {
        return Err(format!("the path of the artefact directory {PLAIN_RELATIVE}"));
    }
    let artifacts = Some(spec.artifacts.as_str()).filter(|path| !path.is_empty());
    if !spec.scratch_dirs.iter().map(String::as_str).chain(artifacts).all(is_scratch_writable) {
        return Err(format!("a scratch or artefact directory must be below one of {}", SCRATCH_WRITABLE.join(", ")));
    }
    if spec.scratch_files.iter().map(|file| file.bytes.len()).sum::<usize>() > SCRATCH_BYTES_MAX {
        return Err("the scratch files are larger than 64 MiB in total".into());
    }
    Ok(())
}

fn limits_rule(limits: &Limits) -> Result<(), String> {
    let all = [
        limits.memory_bytes_max,
        limits.cpu_millis_max.into(),
        limits.pids_max.into(),
        limits.wall_ms_max,
        limits.log_bytes_max,
        limits.tmp_bytes_max,
        limits.disk_bytes_max,
        limits.write_bytes_per_s_max,
    ];
    if all.contains(&0) { Err("every limit must be greater than zero".into()) } else { Ok(()) }
}

/// Whether the path is absolute, UTF-8 (the plan is sent as JSON), and has no `..` and no NUL.
fn is_plain_absolute(path: &Path) -> bool {
    path.is_absolute()
        && path.to_str().is_some_and(|text| !text.contains('\0'))
        && !path.components().any(|part| part == Component::ParentDir)
}

fn is_plain_relative(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Whether the run may write at this path, which is relative to the scratch directory.
pub(crate) fn is_scratch_writable(path: &str) -> bool {
    SCRATCH_WRITABLE.iter().any(|dir| Path::new(path).starts_with(dir))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Jail, ScratchFile};
    use proctor_core::request::ReplacedFile;
    use std::sync::Arc;

    fn valid_spec() -> RunSpec {
        let command = CommandSpec {
            program: "/bin/true".into(),
            args: vec![],
            dir: "/".into(),
            env: vec![("A".into(), "b=c".into())],
        };
        RunSpec {
            commands: vec![command],
            jail: Jail::new("/srv/ws"),
            stack_requests: vec![],
            scratch_files: vec![],
            scratch_dirs: vec!["work/b".into()],
            artifacts: String::new(),
            report: false,
            alone: false,
            limits: Limits::DEFAULT,
            required_limits: vec![],
        }
    }

    #[test]
    fn refuses_a_specification_that_breaks_any_rule() {
        assert!(validate(&valid_spec()).is_ok());
        let violations: &[fn(&mut RunSpec)] = &[
            |spec| spec.commands.clear(),
            |spec| spec.commands = vec![spec.commands[0].clone(); COMMANDS_MAX + 1],
            |spec| spec.commands[0].program = "true".into(),
            |spec| spec.commands[0].program = "/srv/../srv/true".into(),
            |spec| spec.commands[0].dir = "/srv/..".into(),
            |spec| spec.commands[0].args.push("a\0b".into()),
            |spec| spec.commands[0].env.push((String::new(), "x".into())),
            |spec| spec.commands[0].env.push(("A=B".into(), "x".into())),
            |spec| spec.stack_requests = vec![None; 2],
            |spec| {
                let program = CommandSpec { program: "sh".into(), ..spec.commands[0].clone() };
                spec.stack_requests = vec![Some(StackRequest::Program(program))];
            },
            |spec| spec.jail.workspace = "srv/ws".into(),
            |spec| spec.jail.workspace = "/srv/../ws".into(),
            |spec| spec.jail.workspace = "/".into(),
            |spec| spec.jail.workspace = TMP.into(),
            |spec| spec.jail.workspace = SCRATCH.into(),
            |spec| spec.jail.workspace = SHM.into(),
            |spec| spec.jail.read_only.push("srv/rel".into()),
            |spec| spec.scratch_dirs.push("../srv".into()),
            |spec| spec.scratch_dirs.push("/srv".into()),
            |spec| spec.scratch_dirs.push("bin".into()),
            |spec| spec.artifacts = "out".into(),
            |spec| spec.artifacts = "a/../../srv".into(),
            |spec| {
                spec.scratch_files.push(ScratchFile { path: "..".into(), bytes: vec![], executable: false });
            },
            |spec| {
                let replaced = ReplacedFile { path: "../srv".into(), text: String::new() };
                spec.jail.replaced_file = Some(Arc::new(replaced));
            },
            |spec| {
                let text = "a".repeat(REPLACED_FILE_BYTES_MAX + 1);
                spec.jail.replaced_file = Some(Arc::new(ReplacedFile { path: "a".into(), text }));
            },
            |spec| spec.limits.pids_max = 0,
            |spec| spec.limits.wall_ms_max = 0,
            |spec| spec.limits.disk_bytes_max = 0,
        ];
        for (row, violate) in violations.iter().enumerate() {
            let mut spec = valid_spec();
            violate(&mut spec);
            let Err(error @ SandboxError::InvalidSpec { .. }) = validate(&spec) else { panic!("row {row}") };
            let text = error.client_text();
            assert!(text.starts_with("invalid run: ") && !text.contains("srv"), "row {row}: {text}");
        }
    }
}
