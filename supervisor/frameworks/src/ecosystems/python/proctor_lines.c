/* Stores executed lines for proctor_monitoring.py, and for the tracer of a Python before 3.12 (proctor_tracer.c).

   Where Python reports lines by `sys.monitoring`, each line stays on, and its first execution in a test is stored. To turn lines off and
   all of them on again for each test would be dearer: Python then prepares all code anew. Only a line that a test executes very often is
   turned off until the next test, or until a function begins that keeps values. A tracer is told each execution.

   Some functions keep values for later calls, as caches do (proctor_keeping.py). Of each line it is stored below which of them it was
   ever executed.

   proctor_lines.h says what this needs of Python. */

#include "proctor_lines.h"

/* The functions that keep values have numbers, in the order in which they begin. Some of them share one, so that too many count. Number 0
   is none. Those that keep values in their `self` alone, of which few count, have the others. */
#define NUMBERS 128
#define OUTSIDE_MAX 32

/* Executions in one test after which a line is turned off: they take as long as Python needs to turn all lines on. */
#define EXECUTIONS_MAX 4096

/* Most words between two calls of take: as many lines as the largest projects have. */
#define WORDS_MAX ((size_t)1 << 24)

/* Most objects in which functions keep values that are watched at once; a power of 2. */
#define OBJECTS_MAX 4096

/* So many objects may be gone before they are watched no more. */
#define OBJECTS_GONE 256

/* Most frames of a stack that are searched for a function that keeps values. Beyond, there may be one. */
#define FRAMES_MAX 4096

/* How often in one test all lines are turned on again for functions that keep values. Then none is turned off any more. */
#define RESTARTS_MAX 8

/* Code objects by address, at most half of the places taken; the number of places is a power of 2. */
static entry *entries;
static size_t places, taken;

/* Lines since `take`. */
static word *words;
static size_t room, count;

/* How often `take` was called, from 1, and whether lines were turned off since they were last turned on. */
static word now = 1, has_disabled, restarts;

/* The functions that keep values, of which some may not be on the stack any more, and the thread in which the last one began. One that
   Python suspends, as a coroutine, has begun other tasks meanwhile: all until the end of the test may be for it. */
static set keeping, suspended;
static unsigned long keeping_thread;

/* Those of which lines count that were executed below them. */
static set counted;

/* An object, by a weak reference, with the function that keeps values in it, and the test in which it did so first. */
typedef struct {
    PyObject *reference, *code;
    word test;
} object;

/* By reference and function, at most half of the places taken. */
static object objects[2 * OBJECTS_MAX];
static word watched, watched_most = OBJECTS_GONE;

/* How often `forget` was called: it is as a test begins. */
static word tests;

/* How many functions that keep values have begun, without and with IN_SELF, and how often those of a number have begun and not ended,
   unless an exception ended them. */
static word begun[2], nesting[NUMBERS];

/* None, sys.monitoring.DISABLE and sys.monitoring.restart_events, and what is called as the code of a module ends. */
static PyObject *none, *disable, *restart, *loaded;

/* The set of one number. */
static set bit(word number) {
    return number ? (set)1 << number : 0;
}

static entry *find(entry *table, size_t size, PyObject *code) {
    size_t at = ((size_t)code >> 4) * (size_t)0x9E3779B97F4A7C15ull >> 20;
    for (;; at++) {
        entry *one = &table[at & (size - 1)];
        if (one->code == code || !one->code)
            return one;
    }
}

entry *find_code(PyObject *code) {
    entry *of = places ? find(entries, places, code) : 0;
    return of && of->code ? of : 0;
}

static PyObject *answer(PyObject *object) {
    Py_IncRef(object);
    return object;
}

static void store(word one) {
    if (count == room) {
        size_t more = room ? 2 * room : 4096;
        word *larger = more <= WORDS_MAX ? PyMem_RawRealloc(words, more * sizeof(word)) : 0;
        if (!larger)
            return;
        words = larger;
        room = more;
    }
    words[count++] = one;
}

/* The functions that keep values on the stack of this thread; all that ever began if it is very deep. */
static set on_stack(void) {
    PyFrameObject *frame = PyEval_GetFrame();
    Py_IncRef((PyObject *)frame);
    int depth = 0;
    set found = 0;
    for (; frame && depth < FRAMES_MAX; depth++) {
        PyObject *code = PyFrame_GetCode(frame);
        entry *of = find(entries, places, code);
        if (of->code && of->flags & KEEPS)
            found |= bit(of->number);
        Py_DecRef(code);
        PyFrameObject *back = PyFrame_GetBack(frame);
        Py_DecRef((PyObject *)frame);
        frame = back;
    }
    Py_DecRef((PyObject *)frame);
    return depth < FRAMES_MAX ? found : ~(set)0;
}

/* The functions that keep values for which what runs now may be. */
static set may_keep(void) {
    /* Another thread may work for them. */
    if (keeping_thread == PyThread_get_thread_ident()) {
        keeping = on_stack() | suspended;
        for (int number = 0; number < NUMBERS; number++)
            if (!(keeping >> number & 1))
                nesting[number] = 0;
    }
    return keeping;
}

static object *find_object(PyObject *reference, PyObject *code) {
    size_t at = (((size_t)reference >> 4) + ((size_t)code >> 3)) * (size_t)0x9E3779B97F4A7C15ull >> 20;
    for (;; at++) {
        object *one = &objects[at & (2 * OBJECTS_MAX - 1)];
        if (!one->reference || (one->reference == reference && one->code == code))
            return one;
    }
}

static int is_alive(object *one) {
    PyObject *referred = PyObject_CallNoArgs(one->reference);
    int alive = referred && referred != none;
    if (referred)
        Py_DecRef(referred);
    else
        PyErr_Clear();
    return alive;
}

/* Watches no object any more that is gone. If `all`, or if too many are left, watches none, and marks the functions that keep values in
   those which are left. */
static void clear_objects(int all) {
    static object left[OBJECTS_MAX];
    word count = 0;
    for (size_t at = 0; at < 2 * OBJECTS_MAX; at++) {
        object one = objects[at];
        objects[at].reference = 0;
        if (one.reference && is_alive(&one))
            left[count++] = one;
        else if (one.reference)
            Py_DecRef(one.reference);
    }
    watched = 0;
    all |= count > OBJECTS_MAX - OBJECTS_GONE;
    for (word at = 0; at < count; at++)
        if (all) {
            find(entries, places, left[at].code)->flags |= HANDED_ON;
            Py_DecRef(left[at].reference);
        } else {
            *find_object(left[at].reference, left[at].code) = left[at];
            watched++;
        }
    watched_most = watched + OBJECTS_GONE;
}

/* A function that keeps values in its `self` begins. Nobody makes a second weak reference to an object, so that it stands for it. */
static void watch_self(entry *of) {
    PyFrameObject *frame = PyEval_GetFrame();
    PyObject *self = PyFrame_GetVarString ? PyFrame_GetVarString(frame, "self") : first_argument(frame);
    PyObject *reference = self ? PyWeakref_NewRef(self, 0) : 0;
    if (self)
        Py_DecRef(self);
    if (!reference) {
        PyErr_Clear();
        of->flags |= HANDED_ON;
        return;
    }
    if (watched >= watched_most)
        clear_objects(0);
    object *one = find_object(reference, of->code);
    if (!one->reference) {
        *one = (object){reference, of->code, tests};
        watched++;
        return;
    }
    Py_DecRef(reference);
    if (one->test != tests)
        of->flags |= HANDED_ON;
}

int record_line(entry *of, word number) {
    word at = number - of->first;
    if (at >= of->count)
        return 1;
    line *one = &of->lines[at];
    if (one->time != now) {
        one->time = now;
        one->executions = 0;
        store(of->base + number);
    }
    if (keeping & ~one->below)
        one->below |= may_keep();
    if (one->executions < EXECUTIONS_MAX)
        one->executions++;
    return one->executions == EXECUTIONS_MAX && restarts <= RESTARTS_MAX;
}

/* Records a line, if the code object is watched. Returns what Python is to do with the line, no reference of its own. */
static PyObject *record(entry *of, word number) {
    if (of && !record_line(of, number))
        return none;
    has_disabled = 1;
    return disable;
}

/* executed(code, line): the callback for lines. */
static PyObject *executed(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    return answer(number == 2 ? record(find_code(arguments[0]), (word)PyLong_AsLong(arguments[1])) : none);
}

void begin_keeping(entry *of) {
    if (!of->number && of->flags & IN_SELF)
        of->number = OUTSIDE_MAX + begun[1]++ % (NUMBERS - OUTSIDE_MAX);
    else if (!of->number)
        of->number = 1 + begun[0]++ % (OUTSIDE_MAX - 1);
    unsigned long thread = PyThread_get_thread_ident();
    /* What other threads keep is known no more. */
    if (keeping && keeping_thread != thread)
        suspended |= keeping;
    keeping_thread = thread;
    keeping |= bit(of->number);
    nesting[of->number]++;
    suspended |= of->flags & SUSPENDS ? bit(of->number) : 0;
    if ((of->flags & (IN_SELF | HANDED_ON)) == IN_SELF)
        watch_self(of);
}

/* began(code, offset): the callback for the start of a function that has one line or keeps values, and as the latter goes on. */
static PyObject *began(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    entry *of = number == 2 ? find_code(arguments[0]) : 0;
    if (!of)
        return answer(none);
    if (of->flags & KEEPS) {
        begin_keeping(of);
        if (has_disabled && restarts <= RESTARTS_MAX) {
            restarts++;
            has_disabled = 0;
            PyObject *done = PyObject_CallNoArgs(restart);
            if (!done)
                return 0;
            Py_DecRef(done);
        }
    }
    PyObject *wanted = of->flags & ONE_LINE ? record(of, of->first) : none;
    /* The start of a function that keeps values stays on. */
    return answer(of->flags & KEEPS ? none : wanted);
}

void end_keeping(entry *of) {
    /* One that began before it was known to keep values has no number. */
    word *times = &nesting[of->number];
    *times -= *times > 0;
    if (!*times)
        keeping &= ~bit(of->number) | suspended;
}

PyObject *end_module(entry *of) {
    return PyObject_CallFunctionObjArgs(loaded, of->code, (PyObject *)0);
}

/* ended(code, offset, value): the callback for the end of a module and of a function that keeps values, or as the latter is suspended. */
static PyObject *ended(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    entry *of = number == 3 ? find_code(arguments[0]) : 0;
    if (of && !(of->flags & KEEPS))
        return end_module(of);
    if (of)
        end_keeping(of);
    return answer(none);
}

/* watch(code, base, first, count, flags): adds a code object. Returns 0 if there is no memory for it. */
static PyObject *watch(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    if (number != 5)
        return PyLong_FromLong(0);
    if (2 * taken >= places) {
        size_t more = places ? 2 * places : 4096;
        entry *larger = PyMem_RawCalloc(more, sizeof(entry));
        if (!larger)
            return PyLong_FromLong(0);
        for (size_t at = 0; at < places; at++)
            if (entries[at].code)
                *find(larger, more, entries[at].code) = entries[at];
        PyMem_RawFree(entries);
        entries = larger;
        places = more;
    }
    entry *one = find(entries, places, arguments[0]);
    word lines = (word)PyLong_AsLong(arguments[3]);
    line *memory = one->code ? 0 : PyMem_RawCalloc(lines, sizeof(line));
    if (!memory)
        return PyLong_FromLong(0);
    taken++;
    forget_entries();
    word base = (word)PyLong_AsLong(arguments[1]), first = (word)PyLong_AsLong(arguments[2]);
    *one = (entry){arguments[0], (word)PyLong_AsLong(arguments[4]), 0, base, first, lines, memory};
    return PyLong_FromLong(1);
}

/* keep(code, flags): a code object that was added is of a function that keeps values. */
static PyObject *keep(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    entry *of = number == 2 && places ? find(entries, places, arguments[0]) : 0;
    if (of && of->code)
        of->flags = (of->flags & ~(word)IN_SELF) | KEEPS | (word)PyLong_AsLong(arguments[1]);
    return answer(none);
}

/* count(code, line): lines below such a function count, if it has begun and the line was executed; a line of 0 is not asked for. They do
   not if it keeps values in its `self`, and no test had such an object from another one, or has left one behind. */
static PyObject *count_lines(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    entry *of = number == 2 && places ? find(entries, places, arguments[0]) : 0;
    if (watched)
        clear_objects(1);
    if (of && of->code && (of->flags & (IN_SELF | HANDED_ON)) != IN_SELF) {
        word at = (word)PyLong_AsLong(arguments[1]), offset = at - of->first;
        if (!at || (offset < of->count && of->lines[offset].time))
            counted |= bit(of->number);
    }
    return answer(none);
}

/* The stored words as bytes, which are no longer stored. */
static PyObject *stored(void) {
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)words, (Py_ssize_t)(count * sizeof(word)));
    if (bytes)
        count = 0;
    return bytes;
}

/* take(): the words since the last call, as bytes. */
static PyObject *take(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    PyObject *bytes = stored();
    if (bytes) {
        now++;
        restarts = 0;
    }
    return bytes;
}

/* below(): the words of all lines that were ever executed below functions that count, as bytes. What was not taken is lost. */
static PyObject *below(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    count = 0;
    for (size_t at = 0; at < places; at++)
        for (word line = 0; entries[at].code && line < entries[at].count; line++)
            if (entries[at].lines[line].below & counted)
                store(entries[at].base + entries[at].first + line);
    return stored();
}

/* forget(): a test begins, and what has begun before has nothing to do with it. */
static PyObject *forget(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    keeping = suspended = 0;
    tests++;
    return answer(none);
}

/* disabled(): whether lines were turned off since the last call. */
static PyObject *disabled(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    word had = has_disabled;
    has_disabled = 0;
    return PyLong_FromLong((long)had);
}

/* start(none, disable, restart, loaded): what the callbacks return, what turns all lines on, and what is called with the code of a module
   that ends. */
static PyObject *start(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    if (number == 4) {
        none = answer(arguments[0]);
        disable = answer(arguments[1]);
        restart = answer(arguments[2]);
        loaded = answer(arguments[3]);
    }
    return PyLong_FromLong(number == 4);
}

static PyMethodDef methods[] = {
    {"start", start, METH_FASTCALL, 0},
    {"watch", watch, METH_FASTCALL, 0},
    {"keep", keep, METH_FASTCALL, 0},
    {"executed", executed, METH_FASTCALL, 0},
    {"began", began, METH_FASTCALL, 0},
    {"ended", ended, METH_FASTCALL, 0},
    {"take", take, METH_FASTCALL, 0},
    {"count", count_lines, METH_FASTCALL, 0},
    {"below", below, METH_FASTCALL, 0},
    {"forget", forget, METH_FASTCALL, 0},
    {"disabled", disabled, METH_FASTCALL, 0},
    {"traced", traced, METH_FASTCALL, 0},
    {"install", install, METH_FASTCALL, 0},
    {"remove", remove_tracer, METH_FASTCALL, 0},
    {"is_setting", is_setting, METH_FASTCALL, 0},
    {"has_failed", has_failed, METH_FASTCALL, 0},
    {"learn_layout", learn_layout, METH_FASTCALL, 0},
    {"expect", expect, METH_FASTCALL, 0},
    {"is_in_force", is_in_force, METH_FASTCALL, 0},
    {"new_threads", new_threads, METH_FASTCALL, 0},
    {0, 0, 0, 0},
};

static PyModuleDef definition = {.references = 1, .name = "proctor_lines", .size = -1, .methods = methods};

__attribute__((visibility("default"))) PyObject *PyInit_proctor_lines(void) {
    return PyModule_Create2(&definition, PYTHON_ABI_VERSION);
}
