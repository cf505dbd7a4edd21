// Runs in Maven beside the project's own plugins (maven.ext.class.path) and writes proctor's report: each XML file of Surefire or
// Failsafe as soon as it is complete, the test count of each of their executions, and how the build ended. Tests normally run in
// a JVM of their own and cannot read the token that begins each record. Changes no setting and no file. Runs on Java 8 and newer
// and needs only Maven's classes to be compiled.
//
// A record is the token and a blank, a kind, a blank and a path, a newline, a text, a NUL. Kinds: `file` (its content), `ran`
// (the module's directory; tests and failures, or nothing where this Surefire does not log them through Maven), `end` (`success`
// or `failure`). The first record is `begin`, without the token, which is its text.

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Scanner;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.maven.eventspy.EventSpy;
import org.apache.maven.execution.ExecutionEvent;
import org.apache.maven.execution.MavenExecutionResult;
import org.apache.maven.execution.MavenSession;
import org.apache.maven.execution.MojoExecutionEvent;
import org.apache.maven.execution.MojoExecutionListener;
import org.apache.maven.plugin.Mojo;
import org.apache.maven.plugin.logging.Log;
import org.apache.maven.project.MavenProject;
import org.codehaus.plexus.logging.Logger;

public class Report implements EventSpy, MojoExecutionListener, Runnable, InvocationHandler {
    // Interval in which files are looked for, in milliseconds.
    private static final long LOOK_MS = 200;
    // A longer file is sent empty, which the parser reports.
    private static final long FILE_BYTES_MAX = 48 * 1024 * 1024;
    private static final String WHOLE = "</testsuite>";
    // Surefire's total at the end of all forks; the count of a class has more text behind it.
    private static final Pattern COUNTED = Pattern.compile(
        "(?:\u001b\\[[0-9;]*m)*Tests run: (\\d+), Failures: (\\d+), Errors: (\\d+), Skipped: \\d+(?:, Flakes: \\d+)?(?:\u001b\\[[0-9;]*m|\\s)*");
    // Maven makes one instance for each role, so the shared state is static.
    private static final String TOKEN = UUID.randomUUID().toString();
    private static final Map<Object, String> COUNTS = Collections.synchronizedMap(new IdentityHashMap<Object, String>());
    // Watched directories, each with the last known state of its files.
    private static final Map<Path, Map<Path, String>> KNOWN = new HashMap<>();
    private static OutputStream stream;
    private static Path root = new File("").getAbsoluteFile().toPath();

    private final Object mojo;
    private final Object logger;

    public Report() {
        this(null, null);
    }

    // Intercepts what `mojo` writes to `logger`.
    private Report(Object mojo, Object logger) {
        this.mojo = mojo;
        this.logger = logger;
    }

    @Override
    public void init(Context context) throws IOException {
        say("begin", "", TOKEN);
        Thread looks = new Thread(this, "proctor");
        looks.setDaemon(true);
        looks.start();
        // A JVM that ends early sends no `end`, but the files that exist.
        Runtime.getRuntime().addShutdownHook(new Thread(this::look));
    }

    @Override
    public void onEvent(Object event) {
        if (event instanceof ExecutionEvent && ((ExecutionEvent) event).getType() == ExecutionEvent.Type.ProjectStarted) {
            MavenProject project = ((ExecutionEvent) event).getProject();
            ofSession(((ExecutionEvent) event).getSession());
            for (String name : new String[] {"surefire-reports", "failsafe-reports"}) {
                watch(new File(project.getBuild().getDirectory(), name));
            }
        } else if (event instanceof MavenExecutionResult) {
            look();
            say("end", "", ((MavenExecutionResult) event).hasExceptions() ? "failure" : "success");
        }
    }

    @Override
    public void close() {}

    private static void ofSession(MavenSession session) {
        try {
            root = new File(session.getRequest().getBaseDirectory()).getCanonicalFile().toPath();
        } catch (IOException problem) {
            // The directory that Maven was started in is good enough.
        }
    }

    @Override
    public void beforeMojoExecution(MojoExecutionEvent event) {
        Mojo mojo = event.getMojo();
        if (reports(event) != null) watch(reports(event));
        if (!runs(event)) return;
        COUNTS.put(mojo, "");
        if (mojo.getLog() != null) mojo.setLog((Log) heard(Log.class, mojo, mojo.getLog()));
        for (Class<?> type = mojo.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getType() != Logger.class) continue;
                try {
                    field.setAccessible(true);
                    if (field.get(mojo) != null) field.set(mojo, heard(Logger.class, mojo, field.get(mojo)));
                } catch (ReflectiveOperationException | RuntimeException problem) {
                    // The logger is not intercepted then, and the counts are not reported.
                }
            }
        }
    }

    @Override
    public void afterMojoExecutionSuccess(MojoExecutionEvent event) {
        ended(event);
    }

    @Override
    public void afterExecutionFailure(MojoExecutionEvent event) {
        ended(event);
    }

    private void ended(MojoExecutionEvent event) {
        if (reports(event) != null) look();
        if (!runs(event)) return;
        String counts = COUNTS.remove(event.getMojo());
        say("ran", relative(event.getProject().getBasedir().toPath()), counts == null ? "" : counts);
    }

    private static boolean runs(MojoExecutionEvent event) {
        String plugin = event.getExecution().getArtifactId();
        String goal = event.getExecution().getGoal();
        return plugin.equals("maven-surefire-plugin") && goal.equals("test")
            || plugin.equals("maven-failsafe-plugin") && goal.equals("integration-test");
    }

    // The report directory of any plugin that has one.
    private static File reports(MojoExecutionEvent event) {
        try {
            Method getter = event.getMojo().getClass().getMethod("getReportsDirectory");
            return getter.getReturnType() == File.class ? (File) getter.invoke(event.getMojo()) : null;
        } catch (ReflectiveOperationException | RuntimeException none) {
            return null;
        }
    }

    private static Object heard(Class<?> type, Object mojo, Object logger) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, new Report(mojo, logger));
    }

    // The last total is Surefire's own: lines that tests make it log come before.
    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
        if (arguments != null && arguments.length > 0 && arguments[0] instanceof CharSequence) {
            Matcher counted = COUNTED.matcher((CharSequence) arguments[0]);
            if (counted.matches()) {
                long failures = Long.parseLong(counted.group(2)) + Long.parseLong(counted.group(3));
                COUNTS.put(mojo, counted.group(1) + " " + failures);
            }
        }
        try {
            return method.invoke(logger, arguments);
        } catch (InvocationTargetException thrown) {
            throw thrown.getCause();
        }
    }

    // Files of an earlier run are recorded as known.
    private static void watch(File reports) {
        synchronized (KNOWN) {
            Path directory = reports.getAbsoluteFile().toPath().normalize();
            if (KNOWN.containsKey(directory)) return;
            Map<Path, String> files = new HashMap<>();
            for (File file : filesIn(directory)) files.put(file.toPath(), stateOf(file.toPath()));
            KNOWN.put(directory, files);
        }
    }

    @Override
    public void run() {
        try {
            while (true) {
                Thread.sleep(LOOK_MS);
                look();
            }
        } catch (InterruptedException end) {
            // Only the end of Maven interrupts this thread.
        }
    }

    private void look() {
        synchronized (KNOWN) {
            for (Map.Entry<Path, Map<Path, String>> directory : KNOWN.entrySet()) {
                for (File file : filesIn(directory.getKey())) tell(file.toPath(), directory.getValue());
            }
        }
    }

    private static File[] filesIn(Path directory) {
        File[] files = directory.toFile().listFiles((parent, name) -> name.startsWith("TEST-") && name.endsWith(".xml"));
        return files == null ? new File[0] : files;
    }

    // Surefire rewrites the file of a class whose failed tests run again, at any moment.
    private static void tell(Path file, Map<Path, String> known) {
        String state = stateOf(file);
        if (state == null || state.equals(known.get(file))) return;
        try {
            byte[] content = new byte[0];
            if (Files.size(file) <= FILE_BYTES_MAX) {
                content = Files.readAllBytes(file);
                int tail = Math.max(0, content.length - 64);
                String end = new String(content, tail, content.length - tail, StandardCharsets.ISO_8859_1);
                // Also a file that Surefire has created and not written yet.
                if (!end.contains(WHOLE)) return;
            }
            if (!state.equals(stateOf(file))) return;
            known.put(file, state);
            say("file", relative(file), content);
        } catch (IOException gone) {
            // The next look reads it.
        }
    }

    private static String stateOf(Path file) {
        try {
            BasicFileAttributes found = Files.readAttributes(file, BasicFileAttributes.class);
            return found.isRegularFile() ? found.fileKey() + " " + found.size() + " " + found.lastModifiedTime() : null;
        } catch (IOException gone) {
            return null;
        }
    }

    private static String relative(Path path) {
        try {
            path = path.toRealPath();
        } catch (IOException gone) {
            // Falls back to the path as it is.
        }
        return root.relativize(path.toAbsolutePath()).toString();
    }

    static void say(String kind, String path, String text) {
        say(kind, path, text.replace('\0', ' ').getBytes(StandardCharsets.UTF_8));
    }

    // Synchronized because modules may be built at the same time.
    private static synchronized void say(String kind, String path, byte[] text) {
        String word = kind.equals("begin") ? "" : TOKEN + " ";
        byte[] head = (word + kind + " " + path + "\n").getBytes(StandardCharsets.UTF_8);
        byte[] record = new byte[head.length + text.length + 1];
        System.arraycopy(head, 0, record, 0, head.length);
        System.arraycopy(text, 0, record, head.length, text.length);
        try {
            if (stream == null) stream = new FileOutputStream(place());
            stream.write(record);
        } catch (IOException problem) {
            throw new IllegalStateException(problem);
        }
    }

    // The report's path is in a resource beside this class: in an environment variable every test would see it.
    private static String place() throws IOException {
        try (InputStream place = Report.class.getResourceAsStream("/proctor-report")) {
            if (place == null) throw new IOException("proctor's extension of Maven is not whole");
            return new Scanner(place, "UTF-8").useDelimiter("\n").next();
        }
    }
}
