<?php
// Reads the events of PHPUnit 10 and newer, which tell of everything that PHPUnit does. Events that a version lacks do not occur.

namespace Proctor;

use PHPUnit\Event\Code;
use PHPUnit\Event\Event;
use PHPUnit\Event\Facade;
use PHPUnit\Event\Test as Tests;
use PHPUnit\Event\TestRunner;
use PHPUnit\Event\TestSuite;
use PHPUnit\Event\Tracer\Tracer as TracerOfPhpunit;
use PHPUnit\TextUI\Application;

final class Tracer implements TracerOfPhpunit
{
    // The running test, when it began, and its result as far as known: not every test has an event of its end.
    private ?Test $test = null;
    private float $begin = 0.0;
    private array $result = [];

    // Attempts of a test that failed, by its name.
    private array $attempts = [];

    public function __construct(private Run $run)
    {
    }

    public function trace(Event $event): void
    {
        match (true) {
            $event instanceof TestRunner\ExecutionStarted => $this->run->plan($this->tests($event->testSuite())),
            $event instanceof Tests\PreparationStarted => $this->begin($event),
            $event instanceof Tests\Passed => $this->record($event, ['outcome' => 'passed']),
            $event instanceof Tests\Failed => $this->record($event, ['outcome' => 'failed'] + $this->failure($event)),
            $event instanceof Tests\Errored => $this->record($event, ['outcome' => 'error'] + $this->failure($event)),
            $event instanceof Tests\Skipped => $this->record($event, ['outcome' => 'skipped', 'message' => $event->message()]),
            $event instanceof Tests\MarkedIncomplete
                => $this->record($event, ['outcome' => 'skipped', 'message' => $event->throwable()->message()]),
            $event instanceof Tests\PhpunitErrorTriggered => $this->record($event, ['outcome' => 'error'] + text($event->message())),
            $event instanceof Tests\AttemptFailed, $event instanceof Tests\AttemptErrored => $this->retry($event),
            $event instanceof Tests\ConsideredRisky => $this->run->risky(),
            $event instanceof Tests\PrintedUnexpectedOutput => $this->result['output'] = ($this->result['output'] ?? '') . $event->output(),
            $event instanceof Tests\Finished => $this->finish($event),
            $event instanceof Tests\BeforeFirstTestMethodErrored,
            $event instanceof Tests\BeforeFirstTestMethodFailed => $this->before_class($event),
            $event instanceof Tests\AfterLastTestMethodErrored,
            $event instanceof Tests\AfterLastTestMethodFailed => $this->after_class($event),
            $event instanceof TestSuite\Skipped => $this->skip($event),
            $event instanceof TestSuite\Finished, $event instanceof TestRunner\ExecutionFinished => $this->finish($event),
            $event instanceof TestRunner\WarningTriggered => $this->warn($event->message()),
            $event instanceof TestRunner\ErrorTriggered => $this->run->collector(null, $event->message(), null, $event->message()),
            default => null,
        };
    }

    private function begin(Tests\PreparationStarted $event): void
    {
        $this->finish($event);
        $this->test = $this->name($event->test());
        $this->begin = $this->time($event);
        $this->run->started($this->test);
    }

    // Keeps the worst of what is said of a test; one that PHPUnit does not prepare has no beginning.
    private function record(Event $event, array $result): void
    {
        $test = $this->name($event->test());
        if ($this->test === null || $this->test->name !== $test->name) {
            $this->finish($event);
            [$this->test, $this->begin] = [$test, $this->time($event)];
            $this->run->started($test);
        }
        if ($result['outcome'] !== 'passed' || !isset($this->result['outcome'])) {
            $this->result = $result + $this->result;
        }
    }

    private function finish(Event $event): void
    {
        if ($this->test === null) {
            return;
        }
        $result = $this->result;
        if (!isset($result['outcome'])) {
            $result = ['outcome' => 'error', 'message' => 'PHPUnit has no result of it'] + $result;
        } elseif ($result['outcome'] === 'passed') {
            unset($result['output']);
        }
        $attempts = $this->attempts[$this->test->name] ?? 0;
        $times = ['duration_s' => $this->time($event) - $this->begin, 'failed_attempts' => $attempts];
        $this->run->finished($this->test, $result + $times);
        [$this->test, $this->result] = [null, []];
    }

    private function retry(Event $event): void
    {
        $name = $this->name($event->test())->name;
        $this->attempts[$name] = ($this->attempts[$name] ?? 0) + 1;
    }

    // A hook before all tests of a class: none of them runs.
    private function before_class(Event $event): void
    {
        foreach ($this->run->left_of($event->testClassName()) as $test) {
            $this->run->started($test);
            $this->run->finished($test, ['outcome' => 'error'] + $this->thrown($event->throwable(), true));
        }
    }

    private function after_class(Event $event): void
    {
        $this->finish($event);
        ['message' => $message, 'stack' => $stack] = $this->thrown($event->throwable(), false);
        $hook = $event->calledMethod()->className() . '::' . $event->calledMethod()->methodName();
        $this->run->collector(file_of($event->testClassName()), "Exception in $hook\n$message", place($stack), $stack);
    }

    private function skip(TestSuite\Skipped $event): void
    {
        foreach ($this->tests($event->testSuite()) as $test) {
            if ($this->run->is_planned($test)) {
                $this->run->started($test);
                $this->run->finished($test, ['outcome' => 'skipped', 'message' => $event->message()]);
            }
        }
    }

    // Tests of a file are missing where its class is, and PHPUnit does not count that as a failure.
    private function warn(string $message): void
    {
        if (preg_match('/^Class .+ (?:cannot|could not) be found in (.+?)\.?$/', $message, $found) === 1) {
            $this->run->collector($found[1], $message, null, '');
        } else {
            $this->run->warn($message);
        }
    }

    private function failure(Event $event): array
    {
        $values = [];
        if ($event instanceof Tests\Failed && $event->hasComparisonFailure()) {
            $compared = $event->comparisonFailure();
            $values = ['expected' => $compared->expected(), 'actual' => $compared->actual()];
        }
        return $this->thrown($event->throwable(), $event instanceof Tests\Errored) + $values;
    }

    private function thrown(Code\Throwable $throwable, bool $hasClass): array
    {
        $message = trim(($hasClass ? $throwable->className() . ': ' : '') . $throwable->message());
        $frames = frames($throwable->stackTrace());
        $fields = ['message' => $message, 'stack' => rtrim("$message\n$frames")] + (place($frames) ?? []);
        if ($throwable->hasPrevious()) {
            $fields['stack'] .= "\nCaused by " . $this->thrown($throwable->previous(), true)['stack'];
        }
        return $fields;
    }

    private function tests(\PHPUnit\Event\TestSuite\TestSuite $suite): array
    {
        return array_map($this->name(...), $suite->tests()->asArray());
    }

    // Without what PHPUnit appends for repetitions and attempts.
    private function name(Code\Test $test): Test
    {
        if (!$test instanceof Code\TestMethod) {
            return new Test('', basename($test->file()), $test->file());
        }
        $method = $test->methodName();
        if ($test->testData()->hasDataFromDataProvider()) {
            $set = $test->testData()->dataFromDataProvider()->dataSetName();
            $method .= is_int($set) ? " with data set #$set" : " with data set \"$set\"";
        }
        return new Test($test->className(), $method);
    }

    private function time(Event $event): float
    {
        $time = $event->telemetryInfo()->time();
        return $time->seconds() + $time->nanoseconds() / 1e9;
    }
}

function run_with_tracer(Run $run, array $options): int
{
    Facade::instance()->registerTracer(new Tracer($run));
    return (new Application())->run($options);
}
