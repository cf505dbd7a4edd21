// Runs in Maven beside the project's own plugins (maven.ext.class.path) and lists tests: where Surefire or Failsafe is about to
// run tests, it asks the plugin, with all its settings, for the test classes, asks their test framework for the tests in them, and
// keeps the plugin from running any. Changes no file and no other plugin. Runs on Java 8 and newer and needs only Maven's classes
// to be compiled.
//
// A record has the form of `Report.java`'s, with the module's directory: `listed` (one test per line), `broken` (a class and why
// it cannot be read), `note`.

import java.io.File;
import java.io.IOException;
import java.lang.annotation.Annotation;
import java.lang.reflect.Array;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.maven.artifact.Artifact;
import org.apache.maven.artifact.versioning.ComparableVersion;
import org.apache.maven.execution.MojoExecutionEvent;
import org.apache.maven.execution.MojoExecutionListener;
import org.apache.maven.plugin.MojoExecutionException;
import org.apache.maven.project.MavenProject;
import org.eclipse.aether.RepositorySystem;
import org.eclipse.aether.artifact.DefaultArtifact;
import org.eclipse.aether.collection.CollectRequest;
import org.eclipse.aether.graph.Dependency;
import org.eclipse.aether.resolution.ArtifactResult;
import org.eclipse.aether.resolution.DependencyRequest;

public class Listing implements MojoExecutionListener {
    // Injected by Maven (listing.xml).
    private RepositorySystem repositories;

    @Override
    public void beforeMojoExecution(MojoExecutionEvent event) throws MojoExecutionException {
        String plugin = event.getExecution().getArtifactId();
        String goal = event.getExecution().getGoal();
        boolean isFailsafe = plugin.equals("maven-failsafe-plugin");
        boolean runs = plugin.equals("maven-surefire-plugin") && goal.equals("test")
            || isFailsafe && goal.equals("integration-test");
        boolean judges = isFailsafe && goal.equals("verify");
        if (!runs && !judges) return;
        Object mojo = event.getMojo();
        try {
            boolean isOff = is(mojo, "isSkip") || is(mojo, "isSkipTests") || is(mojo, "isSkipExec");
            // First of all, so that nothing runs whatever fails below.
            find(mojo.getClass(), "setSkipTests", boolean.class).invoke(mojo, true);
            if (runs && !isOff) new Tests(event, mojo).tell();
        } catch (Exception | LinkageError problem) {
            String what = "proctor cannot list the tests of this " + plugin + ": ";
            throw new MojoExecutionException(what + why(problem), problem);
        }
    }

    @Override
    public void afterMojoExecutionSuccess(MojoExecutionEvent event) {}

    @Override
    public void afterExecutionFailure(MojoExecutionEvent event) {}

    // Lists the tests of one execution in one module.
    private final class Tests {
        private final MojoExecutionEvent event;
        private final MavenProject project;
        private final Object mojo;
        private final String dir;
        private final Set<String> found = new LinkedHashSet<>();
        private Object filter;
        private ClassLoader loader;

        Tests(MojoExecutionEvent event, Object mojo) throws IOException {
            this.event = event;
            this.project = event.getProject();
            this.mojo = mojo;
            File root = new File(event.getSession().getRequest().getBaseDirectory()).getCanonicalFile();
            this.dir = root.toPath().relativize(project.getBasedir().getCanonicalFile().toPath()).toString();
        }

        void tell() throws Exception {
            List<String> classes = classes();
            if (classes.isEmpty()) return;
            List<URL> path = new ArrayList<>();
            for (String element : project.getTestClasspathElements()) path.add(new File(element).toURI().toURL());
            Object more = call(mojo, "getAdditionalClasspathElements");
            for (int i = 0; more != null && i < Array.getLength(more); i++) {
                path.add(new File((String) Array.get(more, i)).toURI().toURL());
            }
            boolean onPlatform = isPlatforms() && has("org.junit.platform:junit-platform-commons") && !has("org.testng:testng");
            if (onPlatform) path.addAll(launcher());
            Thread thread = Thread.currentThread();
            ClassLoader before = thread.getContextClassLoader();
            ClassLoader jdk = ClassLoader.getSystemClassLoader().getParent();
            try (URLClassLoader own = new URLClassLoader(path.toArray(new URL[0]), jdk)) {
                loader = own;
                thread.setContextClassLoader(own);
                Finder finder = onPlatform ? new Platform()
                    : has("org.testng:testng") ? this::ofTestNg
                    : has("junit:junit") || has("junit:junit-dep") ? this::ofJUnit4 : null;
                if (finder == null) {
                    say("note", dir, "nothing is listed: no test framework that this plugin runs and proctor can ask is a dependency");
                    return;
                }
                if (!onPlatform && (given("getGroups") || given("getExcludedGroups"))) {
                    say("note", dir, "tests of all groups are listed: which of them the settings take is known in a run");
                }
                for (String name : classes) {
                    try {
                        finder.in(name);
                    } catch (Exception | LinkageError problem) {
                        say("broken", dir, name + "\n" + why(problem));
                    }
                }
            } finally {
                thread.setContextClassLoader(before);
            }
            say("listed", dir, String.join("\n", found));
        }

        // The classes that the plugin would pass to the test framework.
        private List<String> classes() throws Exception {
            // Named scanForTestClasses since Surefire 3.0.
            Method scan = find(mojo.getClass(), "scanForTestClasses");
            if (scan == null) scan = find(mojo.getClass(), "scanDirectories");
            if (given("getSuiteXmlFiles")) {
                say("note", dir, "suiteXmlFiles say what runs: listed are the classes that Surefire would find without them");
            }
            Object result = scan.invoke(mojo);
            int size = (Integer) call(result, "size");
            List<String> names = new ArrayList<>();
            Method each = find(result.getClass(), "getClassName", int.class);
            for (int i = 0; i < size; i++) names.add((String) each.invoke(result, i));
            names.sort(null);
            Method specific = find(mojo.getClass(), given("getTest") ? "getSpecificTests" : "getIncludedAndExcludedTests");
            Object read = specific == null ? null : specific.invoke(mojo);
            // Class patterns were applied by the scan: nested classes were found under their outer class's name.
            if (read != null && is(read, "hasMethodPatterns")) filter = read;
            else if (specific == null && given("getTest") && call(mojo, "getTest").toString().contains("#")) {
                say("note", dir, "this Surefire does not say which methods a filter takes: all of its classes are listed");
            }
            return names;
        }

        // Whether the plugin runs JUnit Platform tests: by itself since 2.22, or with the platform's provider in older versions.
        private boolean isPlatforms() {
            ComparableVersion own = new ComparableVersion(event.getExecution().getVersion());
            return own.compareTo(new ComparableVersion("2.22.0")) >= 0
                || event.getExecution().getPlugin().getDependencies().stream()
                    .anyMatch(one -> one.getArtifactId().equals("junit-platform-surefire-provider"));
        }

        private boolean given(String getter) throws Exception {
            Object value = call(mojo, getter);
            return value != null && !value.equals("") && !(value.getClass().isArray() && Array.getLength(value) == 0);
        }

        private boolean has(String artifact) {
            return version(artifact) != null;
        }

        private String version(String artifact) {
            for (Artifact known : project.getArtifacts()) {
                if (artifact.equals(known.getGroupId() + ":" + known.getArtifactId())) return known.getBaseVersion();
            }
            return null;
        }

        // The JUnit Platform launcher in the project's version, and Jupiter's engine where the project depends on the API only:
        // Surefire adds the same.
        private List<URL> launcher() throws Exception {
            List<String> wanted = new ArrayList<>();
            wanted.add("org.junit.platform:junit-platform-launcher:" + version("org.junit.platform:junit-platform-commons"));
            String api = version("org.junit.jupiter:junit-jupiter-api");
            boolean hasEngine = has("org.junit.jupiter:junit-jupiter-engine");
            if (api != null && !hasEngine) wanted.add("org.junit.jupiter:junit-jupiter-engine:" + api);
            CollectRequest request = new CollectRequest();
            request.setRepositories(project.getRemoteProjectRepositories());
            for (String one : wanted) {
                request.addDependency(new Dependency(new DefaultArtifact(one.replaceFirst("(.*):", "$1:jar:")), "runtime"));
            }
            List<URL> jars = new ArrayList<>();
            for (ArtifactResult result : repositories.resolveDependencies(
                    event.getSession().getRepositorySession(), new DependencyRequest(request, null)).getArtifactResults()) {
                org.eclipse.aether.artifact.Artifact artifact = result.getArtifact();
                if (!has(artifact.getGroupId() + ":" + artifact.getArtifactId())) jars.add(artifact.getFile().toURI().toURL());
            }
            return jars;
        }

        // Whether the plugin's filter by methods accepts this method.
        private boolean isTaken(String type, String method) throws Exception {
            if (filter == null || method.isEmpty()) return true;
            Method takes = find(filter.getClass(), "shouldRun", String.class, String.class);
            return (Boolean) takes.invoke(filter, type.replace('.', '/') + ".class", method);
        }

        private void add(String type, String method, String shown) throws Exception {
            if (isTaken(type, method)) found.add((shown.isEmpty() ? type : type + "#" + shown).replaceAll("\\p{Cntrl}", " "));
        }

        // JUnit 4 describes what it would run, also for the project's own runners.
        private void ofJUnit4(String name) throws Exception {
            Class<?> type = Class.forName(name, false, loader);
            if (Modifier.isAbstract(type.getModifiers())) return;
            boolean isTest = type("junit.framework.Test").isAssignableFrom(type) || has(type, "suite")
                || type.isAnnotationPresent(annotation("org.junit.runner.RunWith"));
            Class<? extends Annotation> mark = annotation("org.junit.Test");
            for (Class<?> above = type; above != null && !isTest; above = above.getSuperclass()) {
                isTest = Arrays.stream(above.getDeclaredMethods()).anyMatch(method -> method.isAnnotationPresent(mark));
            }
            if (!isTest) return;
            Object request = type("org.junit.runner.Request").getMethod("aClass", Class.class).invoke(null, type);
            describe(name, call(call(request, "getRunner"), "getDescription"));
        }

        private void describe(String otherwise, Object description) throws Exception {
            List<?> children = (List<?>) call(description, "getChildren");
            for (Object child : children) describe(otherwise, child);
            if (!children.isEmpty()) return;
            // `method(class)`, or a runner's own display name.
            String shown = (String) call(description, "getDisplayName");
            int open = shown.endsWith(")") ? shown.lastIndexOf('(') : -1;
            String type = open < 0 ? shown : shown.substring(open + 1, shown.length() - 1);
            String method = open < 0 ? "" : shown.substring(0, open);
            if (method.equals("initializationError")) throw new IllegalStateException("JUnit cannot run this class: " + type);
            add(type.matches("[\\w.$]+") ? type : otherwise, method, method);
        }

        // TestNG annotates methods, or a class for all its public methods.
        private void ofTestNg(String name) throws Exception {
            Class<?> type = Class.forName(name, false, loader);
            if (Modifier.isAbstract(type.getModifiers())) return;
            Class<? extends Annotation> mark = annotation("org.testng.annotations.Test");
            Set<String> names = new LinkedHashSet<>();
            for (Class<?> above = type; above != null && above != Object.class; above = above.getSuperclass()) {
                Annotation whole = above.getAnnotation(mark);
                for (Method method : above.getDeclaredMethods()) {
                    Annotation own = method.getAnnotation(mark);
                    boolean isPlain = Modifier.isPublic(method.getModifiers()) && !Modifier.isStatic(method.getModifiers())
                        && !method.isSynthetic() && !isConfiguration(method);
                    Annotation of = own != null ? own : isPlain ? whole : null;
                    if (of != null && (Boolean) call(of, "enabled")) names.add(method.getName());
                }
            }
            for (String method : names.stream().sorted().collect(Collectors.toList())) add(name, method, method);
        }

        private boolean isConfiguration(Method method) {
            return Arrays.stream(method.getAnnotations())
                .map(one -> one.annotationType().getName())
                .anyMatch(one -> one.startsWith("org.testng.annotations.") && !one.endsWith(".Test"));
        }

        private boolean has(Class<?> type, String method) {
            return Arrays.stream(type.getMethods()).anyMatch(one -> one.getName().equals(method) && one.getParameterCount() == 0);
        }

        private Class<?> type(String name) throws ClassNotFoundException {
            return Class.forName(name, false, loader);
        }

        private Class<? extends Annotation> annotation(String name) throws ClassNotFoundException {
            return type(name).asSubclass(Annotation.class);
        }

        // The JUnit Platform discovers tests without running them, with any engine.
        private final class Platform implements Finder {
            private final Object launcher;
            private final List<Object> filters = new ArrayList<>();

            Platform() throws Exception {
                launcher = type("org.junit.platform.launcher.core.LauncherFactory").getMethod("create").invoke(null);
                tags("getGroups", "includeTags");
                tags("getExcludedGroups", "excludeTags");
                engines("getIncludeJUnit5Engines", "includeEngines");
                engines("getExcludeJUnit5Engines", "excludeEngines");
            }

            private void tags(String getter, String method) throws Exception {
                if (!given(getter)) return;
                List<String> tags = Arrays.stream(((String) call(mojo, getter)).split(",")).map(String::trim)
                    .filter(tag -> !tag.isEmpty()).collect(Collectors.toList());
                filters.add(type("org.junit.platform.launcher.TagFilter").getMethod(method, List.class).invoke(null, tags));
            }

            private void engines(String getter, String method) throws Exception {
                if (!given(getter)) return;
                Class<?> filter = type("org.junit.platform.launcher.EngineFilter");
                filters.add(filter.getMethod(method, String[].class).invoke(null, call(mojo, getter)));
            }

            @Override
            public void in(String name) throws Exception {
                // Engines ignore a class that cannot be loaded, and one whose methods cannot be loaded.
                Class.forName(name, false, loader).getDeclaredMethods();
                Class<?> builders = type("org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder");
                Object builder = builders.getMethod("request").invoke(null);
                Object selector = type("org.junit.platform.engine.discovery.DiscoverySelectors")
                    .getMethod("selectClass", String.class).invoke(null, name);
                builders.getMethod("selectors", List.class).invoke(builder, Arrays.asList(selector));
                Object array = Array.newInstance(type("org.junit.platform.engine.Filter"), filters.size());
                for (int i = 0; i < filters.size(); i++) Array.set(array, i, filters.get(i));
                builders.getMethod("filters", array.getClass()).invoke(builder, array);
                Class<?> requests = type("org.junit.platform.launcher.LauncherDiscoveryRequest");
                Object plan = type("org.junit.platform.launcher.Launcher").getMethod("discover", requests)
                    .invoke(launcher, builders.getMethod("build").invoke(builder));
                for (Object root : (Set<?>) call(plan, "getRoots")) walk(plan, root, name);
            }

            private void walk(Object plan, Object node, String type) throws Exception {
                Object source = call(call(node, "getSource"), "orElse", Object.class, null);
                String kind = source == null ? "" : source.getClass().getSimpleName();
                if (kind.equals("ClassSource")) type = (String) call(source, "getClassName");
                Set<?> children = (Set<?>) call(plan, "getChildren", node.getClass(), node);
                for (Object child : children) walk(plan, child, type);
                // A parametrised or dynamic method has no tests before it runs.
                boolean isMethod = kind.equals("MethodSource");
                if (!children.isEmpty() || !isMethod && !(Boolean) call(node, "isTest")) return;
                String reported = ((String) call(node, "getLegacyReportingName")).replaceFirst("\\(\\)$", "");
                if (!isMethod) {
                    add(type, "", reported);
                    return;
                }
                String method = (String) call(source, "getMethodName");
                String parameters = (String) call(source, "getMethodParameterTypes");
                boolean isPlain = parameters == null || parameters.trim().isEmpty();
                String signature = isPlain ? "" : Arrays.stream(parameters.split(",")).map(String::trim)
                    .map(one -> one.substring(one.lastIndexOf('.') + 1)).collect(Collectors.joining(", ", "(", ")"));
                String shown = isPlain && reported.startsWith(method) ? reported : method + signature;
                add((String) call(source, "getClassName"), method, shown);
            }
        }
    }

    // Lists the tests of a class.
    private interface Finder {
        void in(String name) throws Exception;
    }

    private static boolean is(Object object, String getter) throws Exception {
        return Boolean.TRUE.equals(call(object, getter));
    }

    // Null if this version has no such method.
    private static Object call(Object object, String name) throws Exception {
        Method method = find(object.getClass(), name);
        return method == null ? null : method.invoke(object);
    }

    private static Object call(Object object, String name, Class<?> type, Object argument) throws Exception {
        return find(object.getClass(), name, type).invoke(object, argument);
    }

    private static Method find(Class<?> type, String name, Class<?>... parameters) {
        for (Class<?> above = type; above != null; above = above.getSuperclass()) {
            try {
                Method method = above.getDeclaredMethod(name, parameters);
                if (!Modifier.isAbstract(method.getModifiers())) {
                    // Methods of the JDK are callable as they are, and the JDK forbids setAccessible.
                    if (!above.getName().startsWith("java.")) method.setAccessible(true);
                    return method;
                }
            } catch (NoSuchMethodException another) {
                continue;
            }
        }
        return null;
    }

    private static String why(Throwable problem) {
        Throwable cause = problem;
        while (cause instanceof InvocationTargetException && cause.getCause() != null) cause = cause.getCause();
        return cause.toString();
    }

    private static void say(String kind, String dir, String text) {
        Report.say(kind, dir, text);
    }
}
