//! What functions of the standard library do beside what they return: which names of a package change the process or files, and which
//! functions leave their arguments as they are.

/// Which names of a package change more than what a function is given.
enum Effects {
    /// All but these, and those that begin with a piece that ends with `*`.
    AllBut(&'static [&'static str]),
    /// These.
    Some(&'static [&'static str]),
}
use Effects::{AllBut, Some as Only};

/// Packages with names that change the process or files.
const EFFECTS: [(&str, Effects); 24] = [
    ("context", Only(&["AfterFunc"])),
    ("expvar", AllBut(&[])),
    (
        "flag",
        AllBut(&[
            "Arg",
            "Args",
            "ContinueOnError",
            "ErrHelp",
            "ErrorHandling",
            "ExitOnError",
            "Flag",
            "FlagSet",
            "Getter",
            "NArg",
            "NFlag",
            "NewFlagSet",
            "PanicOnError",
            "Parsed",
            "PrintDefaults",
            "UnquoteUsage",
            "Value",
        ]),
    ),
    ("golang.org/x/sys/unix", AllBut(&["Errno", "Signal", "Stat_t", "Getenv", "Getpid", "Getuid", "Getgid"])),
    ("golang.org/x/sys/windows", AllBut(&["Handle", "Errno"])),
    ("io/ioutil", Only(&["Temp*", "Write*"])),
    ("log", Only(&["Default", "Set*"])),
    ("math/rand", Only(&["Seed"])),
    ("mime", Only(&["AddExtensionType"])),
    ("net", Only(&["DefaultResolver", "FileListener", "Listen*"])),
    ("net/http", Only(&["Default*", "Handle", "HandleFunc", "ListenAndServe*", "Serve", "ServeTLS"])),
    (
        "os",
        AllBut(&[
            "Args",
            "Dev*",
            "DirEntry",
            "DirFS",
            "Environ",
            "Err*",
            "Executable",
            // It ends the process, with all that it keeps.
            "Exit",
            "Expand*",
            "File",
            "FileInfo",
            "FileMode",
            "Get*",
            "Hostname",
            "Interrupt",
            "Is*",
            "Kill",
            "LinkError",
            "LookupEnv",
            "Lstat",
            "Mode*",
            "NewSyscallError",
            "O_*",
            "Open",
            "Path*",
            "ProcAttr",
            "Process",
            "ProcessState",
            "ReadDir",
            "ReadFile",
            "Readlink",
            "SEEK_*",
            "SameFile",
            "Signal",
            "Stat",
            "Stderr",
            "Stdin",
            "Stdout",
            "SyscallError",
            "TempDir",
            "User*",
        ]),
    ),
    ("os/exec", AllBut(&["Cmd", "Err*", "Error", "ExitError", "LookPath"])),
    ("os/signal", AllBut(&[])),
    ("plugin", AllBut(&[])),
    (
        "runtime",
        AllBut(&[
            "Caller",
            "Callers",
            "CallersFrames",
            "Compiler",
            "Error",
            "Frame",
            "Frames",
            "Func",
            "FuncForPC",
            "GOARCH",
            "GOOS",
            "GOROOT",
            "Gosched",
            "KeepAlive",
            "MemStats",
            "NumCPU",
            "NumGoroutine",
            "ReadMemStats",
            "Stack",
            "TypeAssertionError",
            "Version",
        ]),
    ),
    (
        "runtime/debug",
        AllBut(&["BuildInfo", "BuildSetting", "Module", "ParseBuildInfo", "PrintStack", "ReadBuildInfo", "Stack"]),
    ),
    ("runtime/pprof", AllBut(&["Label", "Labels", "LabelSet", "Lookup", "Profile", "Profiles"])),
    ("runtime/trace", AllBut(&["IsEnabled"])),
    ("syscall", AllBut(&["Errno", "Signal", "Stat_t", "SysProcAttr", "Getenv", "Getpid", "Getuid", "Getgid"])),
    ("testing", AllBut(&["B", "CoverMode", "F", "M", "Short", "T", "TB", "Testing", "Verbose"])),
    ("time", Only(&["AfterFunc"])),
    ("unsafe", AllBut(&[])),
    ("C", AllBut(&[])),
];

/// Whether a package's `name` changes the process or files.
pub(super) fn changes_process(path: &str, name: &str) -> bool {
    // As `syscall.ENOENT`.
    let is_constant = || {
        let is_system = matches!(path, "syscall" | "golang.org/x/sys/unix" | "golang.org/x/sys/windows");
        is_system && !name.contains(|c: char| c.is_ascii_lowercase())
    };
    EFFECTS.iter().filter(|(package, _)| *package == path).any(|(_, effects)| match effects {
        AllBut(names) => !fits(name, names) && !is_constant(),
        Only(names) => fits(name, names),
    })
}

/// Whether a function has the name of one that changes what its package keeps, as `SetOutput`, `Register` or `MustRegisterAll`.
pub(super) fn is_setter(path: &str, name: &str) -> bool {
    let rest = ["Set", "MustRegister", "Register"].into_iter().find_map(|start| name.strip_prefix(start));
    // Not `Settings`.
    let is_of_response = (path, name) == ("net/http", "SetCookie");
    !is_of_response && rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_lowercase()))
}

/// Variables of packages with methods that change nothing.
const FIXED: [(&str, &[&str]); 9] = [
    ("crypto/rand", &["Reader"]),
    ("encoding/base32", &["*"]),
    ("encoding/base64", &["*"]),
    ("encoding/binary", &["*"]),
    ("io", &["Discard"]),
    ("net/http", &["NoBody"]),
    ("os", &["Stderr", "Stdout", "Stdin"]),
    ("reflect", &["*"]),
    ("time", &["*"]),
];

/// Whether a package's `name` is known to be no variable that its own methods change.
pub(super) fn is_fixed(path: &str, name: &str) -> bool {
    FIXED.iter().any(|(package, names)| *package == path && fits(name, names))
}

/// Functions that change none of their arguments and keep none.
const READING: [(&str, &[&str]); 23] = [
    ("bytes", &["Contains*", "Equal*", "Compare", "Has*", "Index*", "Join", "Repeat", "Replace*", "To*"]),
    ("cmp", &["*"]),
    ("context", &["WithValue"]),
    ("encoding/json", &["Marshal*"]),
    ("errors", &["*"]),
    ("fmt", &["Errorf", "Print*", "Sprint*"]),
    ("html", &["*"]),
    ("maps", &["Clone", "Equal*", "Keys", "Values"]),
    ("math", &["*"]),
    ("math/bits", &["*"]),
    ("net/url", &["*"]),
    ("os", &["Get*", "LookupEnv", "ReadFile", "Stat"]),
    ("path", &["*"]),
    ("path/filepath", &["*"]),
    ("reflect", &["DeepEqual", "TypeOf"]),
    (
        "slices",
        &["BinarySearch*", "Clone", "Concat", "Contains*", "Equal*", "Index*", "IsSorted*", "Max*", "Min*", "Sorted*"],
    ),
    ("sort", &["IsSorted", "Search*"]),
    ("strconv", &["Atoi", "Format*", "Itoa", "Parse*", "Quote*", "Unquote*"]),
    ("strings", &["*"]),
    ("time", &["*"]),
    ("unicode", &["*"]),
    ("unicode/utf16", &["Decode*", "Is*", "RuneLen"]),
    ("unicode/utf8", &["Decode*", "FullRune*", "Rune*", "Valid*"]),
];

/// Whether a function of a package leaves an argument as it is.
pub(super) fn only_reads(path: &str, name: &str, is_first: bool) -> bool {
    // These write to the first one.
    let is_written_value = path == "fmt" && name.starts_with("Fprint") && !is_first;
    is_written_value || READING.iter().any(|(package, names)| *package == path && fits(name, names))
}

/// Whether a name is one of these, or begins with one that ends with an asterisk.
fn fits(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| known.strip_suffix('*').map_or(*known == name, |start| name.starts_with(start)))
}
