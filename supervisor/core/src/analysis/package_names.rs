//! Names of packages that differ from those of their modules, and modules that no package has.

use super::patterns::Language;

/// What a registry calls the package of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Distribution {
    /// By this name.
    Named(&'static str),
    /// By the name of the module.
    OfTheModule,
    /// By none, because the module belongs to the language or the project, or by one of several.
    Unknown,
}

/// Python modules and the packages of the Python Package Index that have them.
const PYTHON: [(&str, &str); 63] = [
    ("Crypto", "pycryptodome"),
    ("Cryptodome", "pycryptodomex"),
    ("Levenshtein", "Levenshtein"),
    ("MySQLdb", "mysqlclient"),
    ("OpenSSL", "pyOpenSSL"),
    ("PIL", "Pillow"),
    ("Xlib", "python-xlib"),
    ("_pytest", "pytest"),
    ("attr", "attrs"),
    ("bs4", "beautifulsoup4"),
    ("bson", "pymongo"),
    ("consul", "python-consul"),
    ("cv2", "opencv-python"),
    ("dateutil", "python-dateutil"),
    ("debian", "python-debian"),
    ("decouple", "python-decouple"),
    ("discord", "discord.py"),
    ("dns", "dnspython"),
    ("docx", "python-docx"),
    ("dotenv", "python-dotenv"),
    ("faiss", "faiss-cpu"),
    ("fitz", "PyMuPDF"),
    ("flask_cors", "Flask-Cors"),
    ("flask_login", "Flask-Login"),
    ("flask_sqlalchemy", "Flask-SQLAlchemy"),
    ("gi", "PyGObject"),
    ("git", "GitPython"),
    ("github", "PyGithub"),
    ("gitlab", "python-gitlab"),
    ("google.protobuf", "protobuf"),
    ("grpc", "grpcio"),
    ("httplib2", "httplib2"),
    ("igraph", "python-igraph"),
    ("jose", "python-jose"),
    ("jwt", "PyJWT"),
    ("kafka", "kafka-python"),
    ("ldap", "python-ldap"),
    ("magic", "python-magic"),
    ("markdown", "Markdown"),
    ("multipart", "python-multipart"),
    ("mysql.connector", "mysql-connector-python"),
    ("nacl", "PyNaCl"),
    ("pkg_resources", "setuptools"),
    ("pptx", "python-pptx"),
    ("psycopg2", "psycopg2-binary"),
    ("pythonjsonlogger", "python-json-logger"),
    ("rest_framework", "djangorestframework"),
    ("ruamel.yaml", "ruamel.yaml"),
    ("serial", "pyserial"),
    ("skimage", "scikit-image"),
    ("sklearn", "scikit-learn"),
    ("slugify", "python-slugify"),
    ("snappy", "python-snappy"),
    ("socketio", "python-socketio"),
    ("socks", "PySocks"),
    ("telegram", "python-telegram-bot"),
    ("umap", "umap-learn"),
    ("usb", "pyusb"),
    ("websocket", "websocket-client"),
    ("win32api", "pywin32"),
    ("wx", "wxPython"),
    ("yaml", "PyYAML"),
    ("zmq", "pyzmq"),
];

/// Python modules that belong to some versions or builds of Python, and names that many packages share.
const PYTHON_UNKNOWN: [&str; 31] = [
    "_bz2",
    "_ctypes",
    "_curses",
    "_lzma",
    "_sqlite3",
    "_ssl",
    "_tkinter",
    "aifc",
    "asynchat",
    "asyncore",
    "audioop",
    "cgi",
    "cgitb",
    "compression",
    "config",
    "crypt",
    "distutils",
    "graphlib",
    "imp",
    "lib2to3",
    "src",
    "nis",
    "smtpd",
    "sqlite3",
    "telnetlib",
    "test",
    "tests",
    "tkinter",
    "tomllib",
    "utils",
    "zoneinfo",
];

/// Python packages that several distributions share: none has the name of the package.
const PYTHON_NAMESPACES: [&str; 11] = [
    "azure",
    "backports",
    "google",
    "jaraco",
    "mysql",
    "opentelemetry",
    "repoze",
    "ruamel",
    "sphinxcontrib",
    "zc",
    "zope",
];

/// First segments of paths that a bundler's or TypeScript's configuration resolves to the project's own directories.
const JAVASCRIPT_DIRECTORIES: [&str; 36] = [
    "api",
    "app",
    "apps",
    "assets",
    "client",
    "common",
    "components",
    "config",
    "constants",
    "contexts",
    "controllers",
    "core",
    "features",
    "fixtures",
    "helpers",
    "hooks",
    "interfaces",
    "layouts",
    "lib",
    "libs",
    "mocks",
    "models",
    "modules",
    "packages",
    "pages",
    "routes",
    "server",
    "services",
    "shared",
    "src",
    "store",
    "styles",
    "test",
    "tests",
    "types",
    "utils",
];

/// Modules of Node itself.
const NODE: [&str; 42] = [
    "assert",
    "async_hooks",
    "buffer",
    "child_process",
    "cluster",
    "console",
    "constants",
    "crypto",
    "dgram",
    "diagnostics_channel",
    "dns",
    "domain",
    "events",
    "fs",
    "http",
    "http2",
    "https",
    "inspector",
    "module",
    "net",
    "os",
    "path",
    "perf_hooks",
    "process",
    "punycode",
    "querystring",
    "readline",
    "repl",
    "sqlite",
    "stream",
    "string_decoder",
    "sys",
    "timers",
    "tls",
    "tty",
    "url",
    "util",
    "v8",
    "vm",
    "wasi",
    "worker_threads",
    "zlib",
];

/// Files that are required in Ruby and the gems that have them.
const RUBY: [(&str, &str); 14] = [
    ("action_controller", "actionpack"),
    ("action_dispatch", "actionpack"),
    ("action_mailer", "actionmailer"),
    ("action_view", "actionview"),
    ("active_job", "activejob"),
    ("active_model", "activemodel"),
    ("active_record", "activerecord"),
    ("active_support", "activesupport"),
    ("capybara", "capybara"),
    ("dotenv", "dotenv"),
    ("factory_bot_rails", "factory_bot_rails"),
    ("faraday", "faraday"),
    ("rspec", "rspec"),
    ("webmock", "webmock"),
];

/// The package that a registry of the language has for `module`.
pub(super) fn distribution(language: Language, module: &str) -> Distribution {
    match language {
        Language::Python => python(module),
        Language::JavaScript => {
            let first = module.split('/').next().unwrap_or_default();
            let is_own =
                module.starts_with("node:") || NODE.contains(&first) || JAVASCRIPT_DIRECTORIES.contains(&first);
            if is_own { Distribution::Unknown } else { Distribution::OfTheModule }
        }
        Language::Rust => {
            let first = module.split("::").next().unwrap_or_default();
            let is_own = ["crate", "self", "super", "std", "core", "alloc", "proc_macro", "test"].contains(&first);
            if is_own { Distribution::Unknown } else { Distribution::OfTheModule }
        }
        Language::Ruby => {
            let first = module.split('/').next().unwrap_or_default();
            let known = RUBY.iter().find(|(file, _)| *file == first);
            match known {
                Some((_, gem)) => Distribution::Named(gem),
                // `require "a/b"` may be of the gem a, a-b or a_b.
                None if module.contains('/') => Distribution::Unknown,
                None => Distribution::OfTheModule,
            }
        }
        Language::Go | Language::Php => Distribution::OfTheModule,
        Language::Jvm | Language::Cpp | Language::Other => Distribution::Unknown,
    }
}

/// Whether a Python package is one that several distributions share.
pub(super) fn is_namespace(package: &str) -> bool {
    PYTHON_NAMESPACES.contains(&package)
}

fn python(module: &str) -> Distribution {
    let is_in =
        |package: &str| module == package || module.strip_prefix(package).is_some_and(|rest| rest.starts_with('.'));
    match PYTHON.iter().find(|(package, _)| is_in(package)) {
        Some((_, name)) => Distribution::Named(name),
        None if PYTHON_UNKNOWN.iter().chain(&PYTHON_NAMESPACES).any(|package| is_in(package)) => Distribution::Unknown,
        None => Distribution::OfTheModule,
    }
}
