# frozen_string_literal: true

# Starts the project's own RSpec in this process and writes proctor's report (`formats::reporter_protocol`). The project's
# options, formatters and hooks stay in force: the report comes from a listener beside the formatters. Needs RSpec 3.6.
#
# Proof of a pass: RSpec returned from its run, and every example that it had selected was reported.
#
# Uses neither the json nor the securerandom library: loading a library's version here could conflict with the project's own.

module ProctorRSpec
  OLDEST = [3, 6].freeze

  # Exit status of a shell that does not find a program.
  NOT_FOUND = 127

  # Most characters of one text in the report.
  TEXT_MAX = 64 * 1024

  # Writes the report: one JSON object per line, in the process that runs the examples and not in its forks.
  class Report
    def initialize(path)
      @pid = Process.pid
      @token = Random.urandom(16).unpack1("H*")
      @mutex = Mutex.new
      @tests = 0
      @stream = File.open(path, "w")
      @stream.sync = true
      @stream.write(%({"event":"begin","token":"#{@token}"}\n))
    end

    def say(event, fields = {})
      return unless Process.pid == @pid

      @mutex.synchronize do
        @tests += 1 if %w[finished listed].include?(event)
        @stream.write("#{@token} #{json({ event: event }.merge(fields))}\n")
      end
    end

    def end_run(left)
      say("end", tests: @tests, left: left)
    end

    private

    def json(value)
      case value
      when nil, true, false, Integer then value.nil? ? "null" : value.to_s
      when Float then value.finite? ? value.to_s : "null"
      when Hash then "{#{value.compact.map { |key, one| "#{quote(key.to_s)}:#{json(one)}" }.join(',')}}"
      else quote(value.to_s)
      end
    end

    def quote(text)
      escaped = ProctorRSpec.utf8(text)[0, TEXT_MAX].gsub(/["\\\u0000-\u001f\u007f]/) { |char| format("\\u%04x", char.ord) }
      %("#{escaped}")
    end
  end

  # Signal on which this process prints its stacks: a real-time signal that no program uses. proctor sends it at the deadline.
  STACK_SIGNAL = 62

  # Prints the stacks of all threads on a signal, to what is now stderr, in the form of Python's faulthandler.
  def self.print_stacks_on_signal
    stderr = IO.for_fd(2, autoclose: false).dup
    Signal.trap(STACK_SIGNAL) do
      # No buffered write: it needs a lock, which a handler may not take.
      Thread.list.each { |thread| stderr.syswrite(stack_of(thread)) }
    end
  rescue ArgumentError, SystemCallError
    # A Ruby that handles no such signal, or no stderr: the run has no stacks.
  end

  def self.stack_of(thread)
    frames = (thread.backtrace_locations || []).reject { |frame| frame.path == __FILE__ }
    lines = frames.map { |frame| %(  File "#{frame.absolute_path || frame.path}", line #{frame.lineno} in #{frame.label}\n) }
    ["Thread (most recent call first):\n", *lines].join
  end

  # Text that JSON can carry: bytes that are no UTF-8 are replaced.
  def self.utf8(text)
    text = text.dup.force_encoding(Encoding::UTF_8) if text.encoding == Encoding::BINARY
    text.encode(Encoding::UTF_8, invalid: :replace, undef: :replace).scrub
  end

  # Package and name of each example, assigned before any runs: in the order of the files, not in the random order of the run.
  class Names
    def initialize(groups)
      @ids = {}.compare_by_identity
      counts = Hash.new(0)
      groups.each { |group| group.examples.each { |example| @ids[example] = unique(counts, example) } }
    end

    # The ID of an example that a run added itself is made on demand.
    def of(example)
      @ids[example] ||= unique(Hash.new(0), example)
    end

    private

    def unique(counts, example)
      metadata = example.metadata
      package = (metadata[:rerun_file_path] || metadata[:file_path]).to_s.delete_prefix("./")
      titles = example.example_group.parent_groups.reverse.map(&:description) << title(metadata)
      name = titles.map { |title| plain(title) }.join(" > ")
      count = counts[[package, name]] += 1
      { package: package, name: count > 1 ? "#{name} (#{count})" : name }
    end

    # An example without a description has its place in the file for a name: RSpec describes it only after running it.
    def title(metadata)
      metadata[:description_args].empty? ? "example [#{metadata[:scoped_id]}]" : metadata[:description]
    end

    def plain(text)
      ProctorRSpec.utf8(text.to_s).gsub(/[[:cntrl:]]+/, " ").strip
    end
  end

  # The examples that a rerun names: lines of a package, a tab and a name; an empty name selects the whole file.
  class Selection
    CLIPPED = "…"

    def initialize(path)
      @names = Hash.new { |hash, package| hash[package] = [] }
      File.foreach(path, chomp: true, encoding: "UTF-8") do |line|
        package, name = line.split("\t", 2)
        @names[package] << name.to_s
      end
    end

    # A clipped name selects every example that it may stand for.
    def include?(id)
      # An empty package stands for any.
      ["", id[:package]].flat_map { |package| @names.fetch(package, []) }.any? do |name|
        name.empty? || name == id[:name] || (name.end_with?(CLIPPED) && id[:name].start_with?(name.delete_suffix(CLIPPED)))
      end
    end
  end

  # Records what is written to a stream while an example runs. Everything still reaches the stream.
  class Recorder
    def initialize(*streams)
      recorder = self
      tee = Module.new { define_method(:write) { |*parts| recorder.keep(parts) || super(*parts) } }
      streams.each { |stream| stream.singleton_class.prepend(tee) }
    end

    def start
      @text = +""
      @left_out = 0
    end

    def stop
      text, @text = @text, nil
      return if text.nil? || text.empty?

      # With room for the line above it within the report's bound.
      text = cut(text, TEXT_MAX - 100) if text.length > TEXT_MAX - 100
      @left_out.positive? ? "[#{@left_out} bytes before this are left out]\n#{text}" : text
    end

    def keep(parts)
      return unless @text

      parts.each { |part| @text << ProctorRSpec.utf8(part.to_s) }
      @text = cut(@text, TEXT_MAX) if @text.length > 2 * TEXT_MAX
      nil
    end

    private

    # The end of a text, which mostly explains a failure.
    def cut(text, length)
      kept = text[-length..-1]
      @left_out += text.bytesize - kept.bytesize
      +kept
    end
  end

  # Describes exceptions: message, values, place and stack.
  class Failures
    # Frames of RSpec itself, of Ruby's own libraries and of this file.
    FOREIGN = %r{/(?:rspec-?[\w.-]*|rspec)/|/vendor/|/gems/|\A<internal:}.freeze
    HOOK = %r{/rspec/core/hooks\.rb:}.freeze
    EXAMPLE = %r{/rspec/core/example\.rb:}.freeze
    ASSERTIONS = %w[RSpec::Expectations::ExpectationNotMetError RSpec::Mocks::MockExpectationError
                    RSpec::Core::Pending::PendingExampleFixedError Minitest::Assertion Test::Unit::AssertionFailedError].freeze
    VALUES = [
      /\A\s*expected:? +(.*?)\n +got:? +(.*?)(?=\n\s*\n|\z)/m,
      /\A\s*expected collection contained: +(.*?)\nactual collection contained: +(.*?)(?=\n|\z)/m
    ].freeze

    def initialize
      @root = "#{File.realpath(Dir.pwd)}/"
    end

    def describe(exception, otherwise = {})
      all = exception.respond_to?(:all_exceptions) ? exception.all_exceptions : [exception]
      first = all.first || exception
      more = all.size > 1 ? "\n(and #{all.size - 1} more)" : ""
      text = message(first)
      expected, actual = values(text)
      text = text.split(/\n\s*(?:\(compared using|Diff:)/, 2).first.rstrip if expected
      { message: text + more, expected: expected, actual: actual, stack: all.map { |one| stack(one) }.join("\n\n") }
        .merge(place(first) || otherwise)
    end

    # Whether a hook raised it, and not the example: the first frame of RSpec's own that runs either decides.
    def hook?(exception)
      first = exception.respond_to?(:all_exceptions) ? exception.all_exceptions.first : exception
      frames = (first&.backtrace || []).reject { |frame| frame =~ EXAMPLE && frame.include?("instance_exec") }
      frames.find { |frame| frame =~ HOOK || frame =~ EXAMPLE }.to_s.match?(HOOK)
    end

    # The innermost frame in the project; a syntax error names its place in its message.
    def place(exception)
      frames = exception.backtrace || []
      frames = [text_of(exception).lines.first.to_s, *frames] if exception.is_a?(SyntaxError)
      frames.each do |frame|
        file, line = position(frame)
        return { file: file, line: line } if file
      end
      nil
    end

    private

    # File and line of a frame in the project. `<internal:...>` and `(eval)` are no files.
    def position(frame)
      file, line = frame.match(/\A(.+?):(\d+)(?::|\z)/)&.captures
      [file, line.to_i] if file && !file.start_with?("<", "(") && own?(File.expand_path(file))
    end

    def own?(file)
      file.start_with?(@root) && file.delete_prefix(@root) !~ %r{\A(?:vendor|\.bundle)/} && file != __FILE__
    end

    def message(exception)
      text = text_of(exception)
      names = exception.class.ancestors.map(&:name)
      (names & ASSERTIONS).any? ? text : "#{exception.class}: #{text}"
    end

    # The message of an exception that a project defines may itself raise.
    def text_of(exception)
      ProctorRSpec.utf8(exception.message.to_s).strip
    rescue StandardError => e
      "its message raises #{e.class}"
    end

    def values(text)
      VALUES.each { |pattern| text.match(pattern) { |found| return [found[1].strip, found[2].strip] } }
      nil
    end

    def stack(exception)
      frames = (exception.backtrace || []).reject { |frame| (frame =~ FOREIGN && !position(frame)) || frame.include?(__FILE__) }
      ["#{exception.class}: #{text_of(exception)}", *frames].join("\n")
    end
  end

  # Listens to RSpec's reporter, before the project's formatters do.
  class Listener
    EVENTS = %i[example_started example_passed example_failed example_pending].freeze

    attr_reader :finished

    def initialize(report, recorder)
      @report = report
      @recorder = recorder
      @failures = Failures.new
      @finished = 0
    end

    def names=(names)
      @names = names
    end

    def example_started(notification)
      return if RSpec.configuration.dry_run?

      @report.say("started", @names.of(notification.example))
      @recorder.start
    end

    def example_passed(notification)
      finish(notification.example, outcome: "passed")
    end

    def example_pending(notification)
      example = notification.example
      failed = example.execution_result.pending_exception
      finish(example, { outcome: failed ? "xfailed" : "skipped", message: example.execution_result.pending_message }.merge(declared(example)))
    end

    def example_failed(notification)
      example = notification.example
      exception = example.execution_result.exception
      outcome = @failures.hook?(exception) ? "error" : "failed"
      finish(example, { outcome: outcome }.merge(@failures.describe(exception, declared(example))))
    end

    # An exception outside of examples: while a file was loaded, or in a hook of a suite or a group.
    def outside(exception, context)
      loaded = context[/while loading (\S+\.rb)\b/i, 1] || context[/\AWhile loading (\S+\.rb) /, 1]
      described = @failures.describe(exception)
      file = loaded ? File.expand_path(loaded) : described[:file]
      message = loaded ? described[:message] : "failed outside of its examples: #{described[:message]}"
      described = { file: file }.merge(described) if file
      @report.say("collector", nodeid: file || ".", message: message, file: described[:file],
                               line: described[:line] || (file && 1), output: described[:stack])
    end

    private

    def finish(example, fields)
      return if RSpec.configuration.dry_run?

      output = @recorder.stop
      output = nil if fields[:outcome] == "passed"
      @finished += 1
      @report.say("finished", @names.of(example).merge(duration_s: example.execution_result.run_time, output: output).merge(fields))
    end

    def declared(example)
      { file: File.expand_path(example.metadata[:file_path]), line: example.metadata[:line_number] }
    end
  end

  # Everything of a run: what RSpec's runner calls, and the end of the report.
  class Run
    def initialize
      settings = %w[REPORT SELECTION LISTING ASKED].to_h { |name| [name, ENV.delete("PROCTOR_#{name}")] }
      @report = Report.new(settings["REPORT"])
      @selection = settings["SELECTION"] && Selection.new(settings["SELECTION"])
      @lists = !settings["LISTING"].nil?
      @is_asked = !settings["ASKED"].nil? || @selection
      @listener = Listener.new(@report, Recorder.new($stdout, $stderr))
      @planned = 0
      @has_begun = false
    end

    # RSpec's exit status, after a run that ended by itself.
    def perform
      listen
      run = self
      runner = Class.new(RSpec::Core::Runner) do
        define_method(:run_specs) { |groups| run.begin(groups) ? super(groups) : 0 }
      end
      RSpec::Core::Runner.disable_autorun!
      status = runner.run(ARGV.dup, $stderr, $stdout).to_i
      finish
      status
    end

    # Names and narrows the examples before they run. Whether RSpec is to run them.
    def begin(groups)
      @has_begun = true
      world = RSpec.world
      all = groups.flat_map(&:descendants)
      @listener.names = names = Names.new(world.all_example_groups)
      narrow(world, all, names) if @selection
      @planned = world.example_count(groups)
      excluded = all.sum { |group| group.examples.size } - @planned
      note("#{excluded} example(s) are excluded by the project's own settings, such as tags and filters") if excluded.positive? && !@is_asked
      unless @lists
        @report.say("total", tests: @planned)
        return true
      end

      all.each { |group| group.filtered_examples.each { |example| @report.say("listed", names.of(example)) } }
      false
    end

    private

    def listen
      RSpec.configuration.backtrace_exclusion_patterns << /\A#{Regexp.escape(__FILE__)}:/
      reporter = RSpec.configuration.formatter_loader.reporter
      reporter.register_listener(@listener, *Listener::EVENTS)
      @listener.names = Names.new([])
      listener = @listener
      reporter.singleton_class.prepend(Module.new do
        define_method(:notify_non_example_exception) do |exception, context|
          listener.outside(exception, context)
          super(exception, context)
        end
      end)
    end

    # Exactly the named examples, whatever tags exclude now: they ran when they failed.
    def narrow(world, groups, names)
      groups.each do |group|
        world.filtered_examples[group] = group.examples.select { |example| @selection.include?(names.of(example)) }
        group.instance_variable_set(:@descendant_filtered_examples, nil)
      end
    end

    def finish
      # RSpec runs nothing when a file cannot be loaded.
      note("RSpec ended before it ran any example", true) unless @has_begun
      return @report.end_run(0) if @lists
      if RSpec.configuration.dry_run?
        note("no example ran: the project's settings ask for a dry run (--dry-run)", true)
        return @report.end_run(@planned)
      end

      left = [@planned - @listener.finished, 0].max
      note("#{left} example(s) did not run: RSpec ended before them", true) if left.positive?
      @report.end_run(left)
    end

    def note(text, unreached = false)
      @report.say("note", text: text, unreached: unreached)
    end
  end

  def self.give_up(why)
    warn("proctor: #{why}")
    exit!(NOT_FOUND)
  end

  def self.main
    print_stacks_on_signal
    begin
      require "rspec/core"
    rescue LoadError => e
      give_up("rspec is not installed for this project's Ruby (#{e.message}): install its gems (bundle install)")
    end
    version = RSpec::Core::Version::STRING
    if (version.split(".").first(2).map(&:to_i) <=> OLDEST).negative?
      give_up("rspec #{version} is too old: #{OLDEST.join('.')} or newer is needed")
    end
    # Ruby reads and prints ASCII alone where no locale is set.
    Encoding.default_external = Encoding::UTF_8 if Encoding.default_external == Encoding::US_ASCII
    # RSpec looks for specs in the default directory only if its program is called so.
    $PROGRAM_NAME = "rspec"
    exit(Run.new.perform)
  end
end

ProctorRSpec.main
