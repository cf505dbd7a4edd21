/* The tracer of a Python before 3.12, which has no `sys.monitoring`: stores the lines that Python reports to `PyEval_SetTrace`
   (proctor_tracing.py).

   Python has one tracer for each thread, in C or in Python. This one has no object, so that `sys.gettrace()` returns None as without it,
   and it sets no attribute of a frame. A tracer that the project sets replaces it; where the project removes its own, by
   `sys.settrace(None)`, this one is set again before another line is executed. */

#include "proctor_lines.h"

/* `traced`, which begins the tracer in a new thread, and Python's own `sys.gettrace`. */
static PyObject *beginner, *gettrace;

/* Whether the tracer is stopped: it removes itself from each thread in which it still is. */
static word is_stopped = 1;

/* The threads that set a tracer for this module, as an audit hook runs meanwhile; 0 for none. */
#define SETTING_MAX 16
static unsigned long setting[SETTING_MAX];

/* Whether something that is called as a module ends has failed. */
static word failed;

/* The frame of the main thread that is going to set a tracer; none if none is. It is only compared. */
static PyFrameObject *awaited;

/* Whether it has set a tracer of the project's. */
static word is_foreign;

/* How often Python is asked to go on to it, so that this ends. */
#define ATTEMPTS_MAX 65536
static word attempts;

/* The frame that was found last, and the entry of its code. A frame that ends is found no more, so that no other has its address. */
static PyFrameObject *latest;
static entry *latest_entry;

/* Where a frame has its parts, in bytes, with all versions of a Python alike: a pointer to what has the code and the variables, none if
   this is the frame itself; the code; the first variable; and, where Python does not know it without a search, the line as it is traced. */
typedef struct {
    word version, holder, code, variables, line;
} layout;

static const layout layouts[] = {{9, 0, 32, 360, 108}, {10, 0, 32, 352, 0}, {11, 24, 32, 72, 0}};

/* That of this Python; all 0 if it is not known. */
static layout frames;

/* How many lines have to be as Python has them, before they are read from frames alone. */
static word unchecked = 256;

void forget_entries(void) {
    latest = 0;
}

static PyObject *same(PyObject *object) {
    Py_IncRef(object);
    return object;
}

static entry *find_frame(PyFrameObject *frame) {
    if (frame != latest) {
        PyObject *code = PyFrame_GetCode(frame);
        latest_entry = find_code(code);
        latest = frame;
        Py_DecRef(code);
    }
    return latest_entry;
}

static char *part_of(PyFrameObject *frame, const layout *of, word offset) {
    char *holder = (char *)frame;
    return (of->holder ? *(char **)(holder + of->holder) : holder) + offset;
}

PyObject *first_argument(PyFrameObject *frame) {
    PyObject *first = frames.version ? *(PyObject **)part_of(frame, &frames, frames.variables) : 0;
    if (!first)
        return 0;
    /* A function within uses it, too. */
    return first->type == (void *)PyCell_Type ? PyCell_Get(first) : same(first);
}

static word line_of(PyFrameObject *frame) {
    if (!frames.line)
        return (word)PyFrame_GetLineNumber(frame);
    word number = *(word *)((char *)frame + frames.line);
    if (unchecked) {
        unchecked--;
        word known = (word)PyFrame_GetLineNumber(frame);
        if (number != known)
            frames.line = 0;
        return known;
    }
    return number;
}

static int trace(PyObject *object, PyFrameObject *frame, int what, PyObject *value);

/* Sets the tracer of this thread, or none. Python reports this to audit hooks. */
static void set_tracer(trace_function function) {
    latest = 0;
    int at = 0;
    while (at < SETTING_MAX && setting[at])
        at++;
    if (at < SETTING_MAX)
        setting[at] = PyThread_get_thread_ident();
    PyEval_SetTrace(function, 0);
    if (at < SETTING_MAX)
        setting[at] = 0;
}

static int trace(PyObject *object, PyFrameObject *frame, int what, PyObject *value) {
    (void)object, (void)value;
    if (is_stopped) {
        set_tracer(0);
        return 0;
    }
    entry *of;
    switch (what) {
    case TRACE_LINE:
        of = find_frame(frame);
        if (of)
            record_line(of, line_of(frame));
        break;
    case TRACE_CALL:
        /* A thread with a tracer of the project has ended frames that this one was not told of. */
        latest = 0;
        of = find_frame(frame);
        if (of && of->flags & KEEPS)
            begin_keeping(of);
        break;
    case TRACE_RETURN:
        of = find_frame(frame);
        latest = 0;
        if (of && of->flags & KEEPS)
            end_keeping(of);
        else if (of && of->flags & IS_MODULE) {
            PyObject *done = end_module(of);
            failed |= !done;
            if (done)
                Py_DecRef(done);
            else
                PyErr_Clear();
        }
        break;
    }
    return 0;
}

/* Whether this is what `sys.gettrace()` returns in this thread. */
static int is_current(PyObject *object) {
    PyObject *current = PyObject_CallNoArgs(gettrace);
    if (current)
        Py_DecRef(current);
    else
        PyErr_Clear();
    return current == object;
}

/* traced(frame, event, value): what `threading` sets in a new thread. Sets the tracer, and traces what Python calls it for. */
PyObject *traced(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    if (number == 3 && beginner && is_current(beginner)) {
        set_tracer(is_stopped ? 0 : trace);
        if (!is_stopped && PyUnicode_CompareWithASCIIString(arguments[1], "call") == 0)
            trace(0, (PyFrameObject *)arguments[0], TRACE_CALL, 0);
    }
    /* No function of the frame's own. */
    return same(&_Py_NoneStruct);
}

/* install(traced, gettrace): sets the tracer in this thread. */
PyObject *install(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    if (number == 2 && !beginner) {
        beginner = same(arguments[0]);
        gettrace = same(arguments[1]);
    }
    is_stopped = !beginner;
    is_foreign = 0;
    if (beginner)
        set_tracer(trace);
    return PyLong_FromLong(beginner != 0);
}

/* remove(): stops the tracer in all threads; in each other one as it next runs. A tracer of the project stays. */
PyObject *remove_tracer(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    is_stopped = 1;
    if (beginner && is_current(&_Py_NoneStruct))
        set_tracer(0);
    return same(&_Py_NoneStruct);
}

/* is_setting(): whether it is this module that sets a tracer in this thread. */
PyObject *is_setting(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    int at = 0;
    while (at < SETTING_MAX && setting[at] != PyThread_get_thread_ident())
        at++;
    return PyLong_FromLong(at < SETTING_MAX);
}

/* has_failed(): whether something that is called as a module ends has failed since the last call. */
PyObject *has_failed(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    word had = failed;
    failed = 0;
    return PyLong_FromLong((long)had);
}

/* Called by Python as the main thread goes on. Sets the tracer again if the awaited frame has removed it. */
static int set_again(void *unused) {
    (void)unused;
    if (!awaited)
        return 0;
    /* An audit hook runs before the tracer is set. */
    if (PyEval_GetFrame() != awaited) {
        if (attempts) {
            attempts--;
            Py_AddPendingCall(set_again, 0);
        }
        return 0;
    }
    awaited = 0;
    if (is_stopped)
        return 0;
    is_foreign = !is_current(&_Py_NoneStruct);
    if (!is_foreign)
        set_tracer(trace);
    return 0;
}

/* expect(frame): a frame of the main thread is going to set a tracer, or to remove it. Returns whether it is known what it does before the
   frame goes on, and whether this tracer was in force until now. */
PyObject *expect(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    word was_in_force = !is_foreign && !awaited;
    awaited = number == 1 ? (PyFrameObject *)arguments[0] : 0;
    attempts = ATTEMPTS_MAX;
    return PyLong_FromLong(awaited && Py_AddPendingCall(set_again, 0) == 0 && was_in_force);
}

/* is_in_force(): whether the tracer is in force in the main thread. */
PyObject *is_in_force(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    return PyLong_FromLong(!is_foreign && !awaited && !is_stopped);
}

/* new_threads(): how many threads have begun to run Python since the last call, whatever started them. Python numbers their states. */
PyObject *new_threads(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    static __UINT64_TYPE__ last;
    PyThreadState *state = PyThreadState_New(PyInterpreterState_Get());
    if (!state)
        return PyLong_FromLong(1);
    __UINT64_TYPE__ latest_id = PyThreadState_GetID(state), before = last;
    PyThreadState_Clear(state);
    PyThreadState_Delete(state);
    last = latest_id;
    return PyLong_FromLong((long)(latest_id - before - 1));
}

/* learn_layout(minor, frame, first): how this Python 3 has its frames, if a frame has its code and its first argument there. Returns
   whether it is known. */
PyObject *learn_layout(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    word version = number == 3 ? (word)PyLong_AsLong(arguments[0]) : 0;
    for (size_t at = 0; number == 3 && at < sizeof(layouts) / sizeof(layout); at++) {
        const layout *of = &layouts[at];
        PyFrameObject *frame = (PyFrameObject *)arguments[1];
        if (of->version != version)
            continue;
        PyObject *code = PyFrame_GetCode(frame);
        if (*(PyObject **)part_of(frame, of, of->code) == code &&
            *(PyObject **)part_of(frame, of, of->variables) == arguments[2])
            frames = *of;
        Py_DecRef(code);
    }
    return PyLong_FromLong(frames.version != 0);
}
