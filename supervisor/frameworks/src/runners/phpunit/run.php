<?php
// Starts the project's own PHPUnit in this process and writes proctor's report (`formats::reporter_protocol`). The project's
// configuration, extensions and printers stay in force: the report comes from a listener beside them (`listener.php` up to
// PHPUnit 9, `tracer.php` from 10 on). Runs on PHP 7.3, the oldest of PHPUnit 9.
//
// Proof of a pass: PHPUnit returned from its run, and every test that it had selected was reported.

namespace Proctor;

const OLDEST = '9.0';

// Exit status of a shell that does not find a program.
const NOT_FOUND = 127;

// Exit status of PHPUnit after an error outside of tests.
const BROKEN = 2;

// Most bytes of one text in the report.
const TEXT_MAX = 65536;

// Longest filter of a rerun: PCRE compiles no pattern of more than 64 KiB.
const FILTER_MAX = 32768;

// Most warnings of PHPUnit's that become notes.
const WARNINGS_MAX = 8;

// Signal on which this process prints its stack: a real-time signal that no program uses. proctor sends it at the deadline.
const STACK_SIGNAL = 62;

// Most frames of that stack.
const FRAMES_MAX = 200;

const EXTENSIONS = ['dom', 'json', 'libxml', 'mbstring', 'tokenizer', 'xml', 'xmlwriter'];

// Writes the report: one JSON object per line, in the process that runs the tests and not in its forks.
final class Report
{
    private $stream;
    private $pid;
    private $token;
    private $tests = 0;

    public function __construct(string $path)
    {
        $this->pid    = getmypid();
        $this->token  = bin2hex(random_bytes(16));
        $this->stream = fopen($path, 'wb');
        stream_set_write_buffer($this->stream, 0);
        fwrite($this->stream, json_encode(['event' => 'begin', 'token' => $this->token]) . "\n");
    }

    public function say(string $event, array $fields): void
    {
        if (getmypid() !== $this->pid) {
            return;
        }
        $this->tests += in_array($event, ['finished', 'listed'], true) ? 1 : 0;
        $fields = array_filter($fields, function ($field) { return $field !== null && $field !== ''; });
        if ($event === 'finished' && isset($fields['output'])) {
            $fields['output'] = end_of($fields['output']);
        }
        $fields = array_map(function ($field) { return is_string($field) ? clip($field) : $field; }, $fields);
        $flags  = JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE | JSON_INVALID_UTF8_SUBSTITUTE;
        fwrite($this->stream, $this->token . ' ' . json_encode(['event' => $event] + $fields, $flags) . "\n");
    }

    public function note(string $text, bool $unreached = false): void
    {
        $this->say('note', ['text' => $text, 'unreached' => $unreached]);
    }

    public function end(int $left): void
    {
        $this->say('end', ['tests' => $this->tests, 'left' => $left]);
    }
}

// A test as the listener and the tracer see it.
final class Test
{
    public $class;
    public $method;
    public $name;
    public $package;

    public function __construct(string $class, string $method, ?string $file = null)
    {
        $this->class   = $class;
        $this->method  = explode(' ', $method, 2)[0];
        $this->name    = printable($class === '' ? $method : $class . '::' . $method);
        $this->package = printable(relative($file ?? file_of($class) ?? $class));
    }

    public function fields(): array
    {
        return ['package' => $this->package, 'name' => $this->name];
    }

    // Where its method is.
    public function place(): array
    {
        if (!method_exists($this->class, $this->method)) {
            return [];
        }
        $method = new \ReflectionMethod($this->class, $this->method);
        return ['file' => $method->getFileName(), 'line' => $method->getStartLine()];
    }
}

// Reports the tests of a run, and knows which of the selected ones have not ended.
final class Run
{
    private $report;
    private $lists;
    private $selection;
    // Per test's name: the test, and how many times it is still to run.
    private $tests   = [];
    private $pending = [];
    private $hasStarted = false;
    private $risky   = 0;
    private $warnings = [];

    public function __construct(Report $report, ?Selection $selection, bool $lists)
    {
        $this->report    = $report;
        $this->selection = $selection;
        $this->lists     = $lists;
    }

    // The tests that PHPUnit has selected, before the first one runs.
    public function plan(array $tests): void
    {
        $this->hasStarted = true;
        foreach ($tests as $test) {
            $this->tests[$test->name]   = $test;
            $this->pending[$test->name] = ($this->pending[$test->name] ?? 0) + 1;
        }
        if (!$this->lists) {
            $this->report->say('total', ['tests' => count($tests)]);
            return;
        }
        foreach ($tests as $test) {
            $this->report->say('listed', $test->fields());
        }
        $this->report->end(0);
        exit(0);
    }

    public function is_planned(Test $test): bool
    {
        return isset($this->pending[$test->name]);
    }

    // Tests of a class that have not ended.
    public function left_of(string $class): array
    {
        return array_filter($this->tests, function (Test $test) use ($class) {
            return $test->class === $class && $this->pending[$test->name] > 0;
        });
    }

    public function started(Test $test): void
    {
        $this->report->say('started', $test->fields() + $test->place());
    }

    public function finished(Test $test, array $fields): void
    {
        $isLeftOut = $fields['outcome'] === 'skipped' && $this->is_left_out($fields['message'] ?? '');
        if ($isLeftOut) {
            $this->note("{$test->name} did not run again: {$fields['message']}", true);
        } elseif (isset($this->pending[$test->name])) {
            $this->pending[$test->name] = max(0, $this->pending[$test->name] - 1);
        }
        if ($fields['outcome'] !== 'passed' && !isset($fields['file'])) {
            $fields += $test->place();
        }
        $this->report->say('finished', $test->fields() + $fields);
    }

    // Whether PHPUnit skips a test of a rerun because it needs the result of one that the rerun leaves out.
    private function is_left_out(string $message): bool
    {
        return $this->selection !== null && strpos($message, 'This test depends on ') === 0;
    }

    public function risky(): void
    {
        $this->risky++;
    }

    // A warning of PHPUnit's, of which each is noted once.
    public function warn(string $message): void
    {
        if (!isset($this->warnings[$message]) && count($this->warnings) < WARNINGS_MAX) {
            $this->warnings[$message] = true;
            $this->note("PHPUnit warns: $message");
        }
    }

    // Something that failed outside of tests.
    public function collector(?string $file, string $message, ?array $place, string $output): void
    {
        $nodeid = $file ?? ($place['file'] ?? '.');
        $place  = $place ?? ($file === null ? [] : ['file' => $file, 'line' => 1]);
        $this->report->say('collector', ['nodeid' => $nodeid, 'message' => $message, 'output' => $output] + $place);
    }

    public function note(string $text, bool $unreached = false): void
    {
        $this->report->note($text, $unreached);
    }

    public function end(bool $isBroken): void
    {
        $left = array_sum($this->pending);
        if ($this->risky > 0) {
            $this->note("PHPUnit calls {$this->risky} test(s) risky");
        }
        if ($left > 0) {
            $this->note("{$left} test(s) did not run: PHPUnit ended before them", true);
        } elseif ($isBroken && !$this->hasStarted) {
            $this->note('PHPUnit ended before it ran any test', true);
        }
        $this->report->end($left);
    }
}

// The tests that a rerun names, as a filter of PHPUnit's.
final class Selection
{
    private const CLIPPED = '…';

    private $classes = [];
    private $tests   = [];

    public function __construct(string $path)
    {
        foreach (file($path, FILE_IGNORE_NEW_LINES) as $line) {
            [$package, $name] = explode("\t", $line, 2) + [1 => ''];
            // A class is called like its file.
            $class = $name === '' ? '(?:[^:]*\\\\)?' . preg_quote(basename($package, '.php'), '/') : preg_quote(explode('::', $name, 2)[0], '/');
            if ($name === '' || $this->needs_others($package, $name)) {
                $this->classes[$class] = true;
            }
            $this->tests[$class][] = $this->pattern($name);
        }
    }

    // Tests, or their classes where there are too many, or null for everything.
    public function filter(): ?string
    {
        $exact   = [];
        $classes = [];
        foreach ($this->tests as $class => $names) {
            $whole     = $class . '::.*';
            $exact     = array_merge($exact, isset($this->classes[$class]) ? [$whole] : $names);
            $classes[] = $whole;
        }
        foreach ([$exact, $classes] as $patterns) {
            $filter = '/^(?:' . implode('|', $patterns) . ')$/s';
            if (strlen($filter) <= FILTER_MAX && @preg_match($filter, '') !== false) {
                return $filter;
            }
        }
        return null;
    }

    // A clipped name selects every test that it may stand for, and what the report cannot carry any text.
    private function pattern(string $name): string
    {
        $isClipped = substr($name, -strlen(self::CLIPPED)) === self::CLIPPED;
        $name      = $isClipped ? substr($name, 0, -strlen(self::CLIPPED)) : $name;
        $parts     = array_map(function (string $part) { return preg_quote($part, '/'); }, explode(UNPRINTABLE, $name));
        return implode('.+?', $parts) . ($isClipped ? '.*' : '');
    }

    // Whether a test may need the result of another one, which is then run again, too: all of its class. One that its file does
    // not have is inherited. Of a test whose file is not known, nothing else runs.
    private function needs_others(string $package, string $name): bool
    {
        if ($package === '') {
            return false;
        }
        $method = explode(' ', explode('::', $name, 2)[1] ?? '', 2)[0];
        $parts  = preg_split('/\bfunction\s+/', (string) @file_get_contents($package));
        foreach (array_slice($parts, 1, null, true) as $number => $part) {
            if (preg_match('/^' . preg_quote($method, '/') . '\s*\(/', $part) === 1) {
                return preg_match('/@depends\b|\bDepends[A-Za-z]*\s*\(/', $parts[$number - 1]) === 1;
            }
        }
        return true;
    }
}

// Stands for a character that a name cannot have in the report: a control character, or no UTF-8.
const UNPRINTABLE = "\u{fffd}";

// Prints the stack on a signal, to what is now stderr, in the form of Python's faulthandler. Without the extension `pcntl` PHP
// handles no signals, and the run has no stack. A fork of this process prints its own.
function print_stack_on_signal(): void
{
    $stderr = @fopen('php://stderr', 'wb');
    $needed = ['pcntl_async_signals', 'pcntl_signal', 'pcntl_signal_get_handler', 'pcntl_sigprocmask', 'pcntl_sigwaitinfo'];
    if ($stderr === false || array_filter($needed, 'function_exists') !== $needed) {
        return;
    }
    // Handlers of the project run at once too, as they do where PHPUnit enforces time limits.
    pcntl_async_signals(true);
    pcntl_signal(STACK_SIGNAL, function () use ($stderr): void {
        $frames = debug_backtrace(DEBUG_BACKTRACE_IGNORE_ARGS, FRAMES_MAX);
        $text   = "Thread (most recent call first):\n";
        foreach ($frames as $index => $frame) {
            // A frame has the place of a call and the function that it calls.
            $function = $frames[$index + 1]['function'] ?? '{main}';
            if (isset($frame['file']) && $frame['file'] !== __FILE__) {
                $text .= "  File \"{$frame['file']}\", line {$frame['line']} in {$function}\n";
            }
        }
        fwrite($stderr, $text);
        end_by_sigterm();
    });
}

// Waits for SIGTERM and ends as the test would by it. The signal before has cut off a wait of the test, whose result would now be
// of the signal and not of the test. PHP blocks all signals in a handler; the test's own handler of SIGTERM is called all the same.
function end_by_sigterm(): void
{
    do {
        $received = @pcntl_sigwaitinfo([SIGTERM], $info);
    } while ($received !== SIGTERM);
    $handler = pcntl_signal_get_handler(SIGTERM);
    if (is_callable($handler)) {
        $handler(SIGTERM, $info);
    }
    pcntl_signal(SIGTERM, SIG_DFL);
    pcntl_sigprocmask(SIG_UNBLOCK, [SIGTERM]);
    if (function_exists('posix_kill')) {
        posix_kill(getmypid(), SIGTERM);
    }
    exit(128 + SIGTERM);
}

function clip(string $text): string
{
    return strlen($text) > TEXT_MAX ? substr($text, 0, TEXT_MAX) . '…' : $text;
}

// The end of a test's output, which mostly explains its failure, below the line that proctor writes above such an end.
function end_of(string $output): string
{
    $length = TEXT_MAX - 100;
    $before = strlen($output) - $length;
    return $before > 0 ? "[$before bytes before this are left out]\n" . substr($output, -$length) : $output;
}

function printable(string $name): string
{
    $valid = json_decode(json_encode($name, JSON_INVALID_UTF8_SUBSTITUTE));
    return preg_replace('/[[:cntrl:]]/', UNPRINTABLE, $valid);
}

// A file as the step's directory sees it.
function relative(string $file): string
{
    $below = getcwd() . '/';
    return strpos($file, $below) === 0 ? substr($file, strlen($below)) : $file;
}

function file_of(string $class): ?string
{
    return class_exists($class, false) ? ((new \ReflectionClass($class))->getFileName() ?: null) : null;
}

// The innermost frame of a filtered stack in the project: lines of `/workspace/src/a.php:3`.
function place(string $stack): ?array
{
    foreach (explode("\n", $stack) as $frame) {
        if (preg_match('/^(.+):(\d+)$/', trim($frame), $found) === 1 && is_own($found[1])) {
            return ['file' => $found[1], 'line' => (int) $found[2]];
        }
    }
    return null;
}

function is_own(string $file): bool
{
    $root = root() . '/';
    return strpos($file, $root) === 0 && strpos("/$file", '/vendor/') === false && is_file($file);
}

// A stack of lines `file:line` without this script's own.
function frames(string $stack): string
{
    $isForeign = function (string $frame) { return strpos($frame, __DIR__) !== 0; };
    return implode("\n", array_filter(explode("\n", $stack), $isForeign));
}

// A message of PHPUnit's that ends with a stack.
function text(string $message): array
{
    $message = trim(frames($message));
    return ['message' => $message] + (place($message) ?? []);
}

// An exception that no test raised, as a collection error.
function describe(\Throwable $thrown): array
{
    $stack = $thrown->getFile() . ':' . $thrown->getLine();
    foreach ($thrown->getTrace() as $frame) {
        $stack .= isset($frame['file']) ? "\n" . $frame['file'] . ':' . ($frame['line'] ?? 0) : '';
    }
    // PHPUnit's own exceptions say everything in their message.
    $isOwn   = strpos(get_class($thrown), 'PHPUnit\\') === 0;
    $message = ($isOwn ? '' : get_class($thrown) . ': ') . $thrown->getMessage();
    return ['message' => $message, 'place' => place($stack), 'stack' => $message . "\n" . frames($stack)];
}

function give_up(string $why): void
{
    fwrite(STDERR, "proctor: $why\n");
    exit(NOT_FOUND);
}

// The workspace.
function root(): string
{
    static $root = null;
    $root = $root ?? (take('ROOT') ?? getcwd());
    return $root;
}

// A setting of this run, which the tests do not see.
function take(string $name): ?string
{
    $name  = "PROCTOR_$name";
    $value = getenv($name);
    putenv($name);
    unset($_SERVER[$name], $_ENV[$name]);
    return $value === false ? null : $value;
}

// Directories from the step's up to the workspace.
function ancestors(): array
{
    $dirs = [];
    for ($dir = getcwd(); strpos("$dir/", root() . '/') === 0; $dir = dirname($dir)) {
        $dirs[] = $dir;
    }
    return $dirs ?: [getcwd()];
}

// The files that load PHPUnit, in the order of preference: the project's packages, an archive of the project's, one of the host's.
function loaders(): iterable
{
    foreach (ancestors() as $dir) {
        $settings = json_decode((string) @file_get_contents("$dir/composer.json"), true);
        $packages = $dir . '/' . rtrim($settings['config']['vendor-dir'] ?? 'vendor', '/');
        if (is_file("$packages/autoload.php") && is_dir("$packages/phpunit/phpunit")) {
            yield "$packages/autoload.php";
        }
        foreach (['tools/phpunit', 'tools/phpunit.phar', 'phpunit.phar', 'bin/phpunit.phar', 'phpunit'] as $archive) {
            if (is_archive("$dir/$archive")) {
                yield "$dir/$archive";
            }
        }
    }
    foreach (explode(PATH_SEPARATOR, (string) getenv('PATH')) as $dir) {
        foreach (['phpunit', 'phpunit.phar'] as $archive) {
            if (is_archive("$dir/$archive")) {
                yield "$dir/$archive";
            }
        }
    }
    // Debian's package.
    if (stream_resolve_include_path('PHPUnit/Autoload.php') !== false) {
        yield 'PHPUnit/Autoload.php';
    }
}

// PHPUnit's archive names itself at its beginning; loaded by another script it defines classes and runs nothing.
function is_archive(string $path): bool
{
    return is_file($path) && strpos((string) file_get_contents($path, false, null, 0, 16384), '__PHPUNIT_PHAR__') !== false;
}

function load_phpunit(): void
{
    $missing = array_filter(EXTENSIONS, function (string $name) { return !extension_loaded($name); });
    if ($missing !== []) {
        give_up('phpunit needs the PHP extension(s) ' . implode(', ', $missing) . ', which this PHP lacks');
    }
    foreach (loaders() as $loader) {
        if (!is_archive($loader)) {
            define('PHPUNIT_COMPOSER_INSTALL', $loader);
        }
        require $loader;
        break;
    }
    if (!class_exists('PHPUnit\Runner\Version')) {
        give_up('phpunit is not installed for this project: install its packages (composer install), or PHPUnit on the host');
    }
    $version = \PHPUnit\Runner\Version::id();
    if (version_compare($version, OLDEST, '<')) {
        give_up("phpunit $version is too old: " . OLDEST . ' or newer is needed');
    }
}

// Options of this run: what the step's command has, a filter for a rerun, and the project's autoloader where it has no settings.
function options(?Selection $selection, Run $run): array
{
    $options = array_slice($_SERVER['argv'], 1);
    if ($selection !== null) {
        $filter = $selection->filter();
        if ($filter === null) {
            $run->note('everything runs again: more tests failed than a filter of PHPUnit\'s can name');
        } else {
            array_unshift($options, "--filter=$filter");
        }
    }
    $settings = array_filter(['phpunit.xml', 'phpunit.dist.xml', 'phpunit.xml.dist'], 'is_file');
    if ($settings === [] && is_file('vendor/autoload.php')) {
        array_unshift($options, '--bootstrap=vendor/autoload.php');
    }
    return array_merge(['phpunit'], $options);
}

function main(): int
{
    root();
    print_stack_on_signal();
    [$path, $list, $selected] = [take('REPORT'), take('LISTING'), take('SELECTION')];
    $report    = new Report($path);
    $selection = $selected === null ? null : new Selection($selected);
    $run       = new Run($report, $selection, $list !== null);
    if (!ini_get('date.timezone')) {
        ini_set('date.timezone', 'UTC');
    }
    load_phpunit();
    $options = options($selection, $run);
    $_SERVER['argv'] = $options;
    $_SERVER['argc'] = count($options);
    if (class_exists('PHPUnit\TextUI\Command')) {
        require __DIR__ . '/listener.php';
        $status = run_with_listener($run, $options);
    } else {
        require __DIR__ . '/tracer.php';
        $status = run_with_tracer($run, $options);
    }
    $run->end($status !== 0);
    return $status;
}

exit(main());
