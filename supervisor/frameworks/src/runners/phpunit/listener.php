<?php
// Listens to PHPUnit 9, which hands its tests and their results to listeners.

namespace Proctor;

use PHPUnit\Framework\AssertionFailedError;
use PHPUnit\Framework\ErrorTestCase;
use PHPUnit\Framework\ExceptionWrapper;
use PHPUnit\Framework\ExpectationFailedException;
use PHPUnit\Framework\SyntheticError;
use PHPUnit\Framework\TestCase;
use PHPUnit\Framework\TestListener;
use PHPUnit\Framework\TestSuite;
use PHPUnit\Framework\Warning;
use PHPUnit\Framework\WarningTestCase;
use PHPUnit\TextUI\Command;
use PHPUnit\TextUI\TestRunner;
use PHPUnit\Util\Filter;
use SebastianBergmann\Exporter\Exporter;
use Throwable;

final class Listener implements TestListener
{
    // What PHPUnit says of all tests of a class but the first when a hook before them fails.
    private const HOOK = 'Test skipped because of an error in hook method';

    private $run;
    private $isPlanned = false;
    // Fields of the running test's result.
    private $result = [];
    // Fields of the result of the first test of a class whose hook failed.
    private $hook = [];

    // Failures, and what fails a run where the project's settings say so, by the name of the setting.
    private $failures = 0;
    private $counts   = ['failOnRisky' => 0, 'failOnWarning' => 0, 'failOnIncomplete' => 0, 'failOnSkipped' => 0];

    public function __construct(Run $run)
    {
        $this->run = $run;
    }

    // The status with which PHPUnit's command would exit: what its `run` returns without exiting counts warnings as failures and
    // knows nothing of the settings.
    public function status(int $returned, $settings): int
    {
        if ($returned !== 0 && ($returned !== TestRunner::FAILURE_EXIT || $this->failures > 0)) {
            return $returned;
        }
        foreach ($this->counts as $setting => $count) {
            if ($count > 0 && $settings !== null && $settings->$setting()) {
                return TestRunner::FAILURE_EXIT;
            }
        }
        return 0;
    }

    public function startTestSuite(TestSuite $suite): void
    {
        if (!$this->isPlanned) {
            $this->isPlanned = true;
            $this->run->plan(self::leaves($suite));
        }
        $this->hook = [];
    }

    public function endTestSuite(TestSuite $suite): void
    {
    }

    public function startTest(\PHPUnit\Framework\Test $test): void
    {
        $this->result = [];
        foreach (self::leaves($test) as $leaf) {
            if ($this->run->is_planned($leaf)) {
                $this->run->started($leaf);
            }
        }
    }

    public function endTest(\PHPUnit\Framework\Test $test, float $time): void
    {
        $result = $this->result + ['outcome' => 'passed'];
        if ($result['outcome'] !== 'passed' && $test instanceof TestCase) {
            $result['output'] = $test->getActualOutput();
        }
        // A hook before a class fails for all of its tests, selected or not.
        foreach (self::leaves($test) as $leaf) {
            if ($this->run->is_planned($leaf)) {
                $this->run->finished($leaf, $result + ['duration_s' => $time]);
            }
        }
    }

    public function addError(\PHPUnit\Framework\Test $test, Throwable $t, float $time): void
    {
        $failure      = $test instanceof ErrorTestCase ? text($test->getMessage()) : self::failure($t, true);
        $this->result = ['outcome' => 'error'] + $failure;
        $this->hook   = $this->result;
    }

    public function addFailure(\PHPUnit\Framework\Test $test, AssertionFailedError $e, float $time): void
    {
        $this->failures++;
        if ($e instanceof SyntheticError) {
            $this->outside($test, $e);
            return;
        }
        $this->result = ['outcome' => 'failed'] + self::failure($e, false);
    }

    public function addWarning(\PHPUnit\Framework\Test $test, Warning $e, float $time): void
    {
        $this->counts['failOnWarning']++;
        if ($test instanceof WarningTestCase) {
            $this->run->warn($test->getMessage());
        }
    }

    public function addIncompleteTest(\PHPUnit\Framework\Test $test, Throwable $t, float $time): void
    {
        $this->counts['failOnIncomplete']++;
        $this->result = ['outcome' => 'skipped', 'message' => $t->getMessage()];
    }

    public function addRiskyTest(\PHPUnit\Framework\Test $test, Throwable $t, float $time): void
    {
        $this->counts['failOnRisky']++;
        $this->run->risky();
    }

    public function addSkippedTest(\PHPUnit\Framework\Test $test, Throwable $t, float $time): void
    {
        $this->counts['failOnSkipped']++;
        $isHook       = $t->getMessage() === self::HOOK && $this->hook !== [];
        $this->result = $isHook ? $this->hook : ['outcome' => 'skipped', 'message' => $t->getMessage()];
    }

    // A hook after all tests of a class, which PHPUnit calls a test of its own.
    private function outside(\PHPUnit\Framework\Test $test, SyntheticError $error): void
    {
        $stack = $error->getSyntheticFile() . ':' . $error->getSyntheticLine() . "\n" . frames(Filter::getFilteredStacktrace($error));
        $class = $test instanceof TestSuite ? explode('::', $test->getName())[0] : get_class($test);
        $this->run->collector(file_of($class), $error->getMessage(), place($stack), $error->getMessage() . "\n" . $stack);
    }

    // Tests below a suite as its filters leave them, or the test itself.
    private static function leaves(\PHPUnit\Framework\Test $test): array
    {
        if (!$test instanceof TestSuite) {
            // A warning is no test, though PHPUnit runs it as one.
            return $test instanceof WarningTestCase ? [] : [self::name($test)];
        }
        $leaves = [];
        foreach ($test as $child) {
            $leaves = array_merge($leaves, self::leaves($child));
        }
        return $leaves;
    }

    private static function name(\PHPUnit\Framework\Test $test): Test
    {
        // A test without data: its data provider failed.
        if ($test instanceof ErrorTestCase && preg_match('/ for ([^\s:]+)::(\S+) is /', $test->getMessage(), $found) === 1) {
            return new Test($found[1], $found[2]);
        }
        if ($test instanceof TestCase) {
            return new Test(get_class($test), $test->getName());
        }
        $file = method_exists($test, 'getName') ? $test->getName() : get_class($test);
        return new Test('', basename($file), $file);
    }

    private static function failure(Throwable $t, bool $hasClass): array
    {
        $stack   = frames(Filter::getFilteredStacktrace($t));
        $class   = $t instanceof ExceptionWrapper ? $t->getClassName() : get_class($t);
        $message = trim(($hasClass ? "$class: " : '') . $t->getMessage());
        return ['message' => $message, 'stack' => rtrim("$message\n$stack")] + self::values($t) + (place($stack) ?? []);
    }

    private static function values(Throwable $t): array
    {
        $compared = $t instanceof ExpectationFailedException ? $t->getComparisonFailure() : null;
        if ($compared === null) {
            return [];
        }
        $exporter = new Exporter();
        return [
            'expected' => $compared->getExpectedAsString() ?: $exporter->export($compared->getExpected()),
            'actual'   => $compared->getActualAsString() ?: $exporter->export($compared->getActual()),
        ];
    }
}

// PHPUnit's command with one listener more.
final class ListenedCommand extends Command
{
    private $listener;
    private $settings = null;

    public function __construct(Listener $listener)
    {
        $this->listener = $listener;
    }

    public function run(array $argv, bool $exit = true): int
    {
        return $this->listener->status(parent::run($argv, false), $this->settings);
    }

    protected function handleArguments(array $argv): void
    {
        parent::handleArguments($argv);
        $this->arguments['listeners'][] = $this->listener;
        if (isset($this->arguments['configurationObject'])) {
            $this->settings = $this->arguments['configurationObject']->phpunit();
        }
    }
}

function run_with_listener(Run $run, array $options): int
{
    try {
        return (new ListenedCommand(new Listener($run)))->run($options, false);
    } catch (Throwable $thrown) {
        // A file that cannot be loaded.
        $described = describe($thrown);
        $run->collector(null, $described['message'], $described['place'], $described['stack']);
        return BROKEN;
    }
}
