/* Stores executed lines for proctor_coverage.py.

   Each line stays on, and its first execution in a test is stored. To turn lines off and all of them on again for each test would be
   dearer: Python then prepares all code anew. Only a line that a test executes very often is turned off until the next test.

   An extension module of the stable ABI (PEP 384) from Python 3.12 on. It needs neither Python's headers nor a C library, so that one
   file serves every Python of its architecture: what it declares of Python's is found in the process that loads it. All functions are
   called with the GIL held, and never from a Python without one. */

typedef struct _object PyObject;
typedef __PTRDIFF_TYPE__ Py_ssize_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINT32_TYPE__ word;
typedef PyObject *(*function)(PyObject *self, PyObject *const *arguments, Py_ssize_t count);

typedef struct {
    const char *name;
    function implementation;
    int flags;
    const char *documentation;
} PyMethodDef;

/* With the head of an object in front, as PyModuleDef_HEAD_INIT fills it. */
typedef struct {
    Py_ssize_t references;
    void *type;
    void *initialise;
    Py_ssize_t index;
    PyObject *copy;
    const char *name;
    const char *documentation;
    Py_ssize_t size;
    PyMethodDef *methods;
    void *slots, *traverse, *clear, *release;
} PyModuleDef;

#define METH_FASTCALL 0x0080
#define PYTHON_ABI_VERSION 3

PyObject *PyModule_Create2(PyModuleDef *definition, int version);
PyObject *PyBytes_FromStringAndSize(const char *bytes, Py_ssize_t size);
PyObject *PyLong_FromLong(long number);
long PyLong_AsLong(PyObject *number);
void *PyMem_RawMalloc(size_t size);
void *PyMem_RawRealloc(void *memory, size_t size);
void *PyMem_RawCalloc(size_t count, size_t size);
void PyMem_RawFree(void *memory);
void Py_IncRef(PyObject *object);

/* How often a line was executed since `take` was called for the time with this number. */
typedef struct {
    word time, executions;
} line;

/* A code object, which proctor_coverage.py keeps alive. */
typedef struct {
    PyObject *code;
    /* The word of line 0. */
    word base;
    /* The first line, and how many follow with it. */
    word first, count;
    line *lines;
} entry;

/* Executions in one test after which a line is turned off: they take as long as Python needs to turn all lines on. */
#define EXECUTIONS_MAX 4096

/* Most words between two calls of take: as many lines as the largest projects have. */
#define WORDS_MAX ((size_t)1 << 24)

/* Code objects by address, at most half of the places taken; the number of places is a power of 2. */
static entry *entries;
static size_t places, taken;

static word *words;
static size_t room, count;

/* How often `take` was called, from 1, and whether lines were turned off since they were last turned on. */
static word now = 1, has_disabled;

/* None, and sys.monitoring.DISABLE */
static PyObject *none, *disable;

static entry *find(entry *table, size_t size, PyObject *code) {
    size_t at = ((size_t)code >> 4) * (size_t)0x9E3779B97F4A7C15ull >> 20;
    for (;; at++) {
        entry *one = &table[at & (size - 1)];
        if (one->code == code || !one->code)
            return one;
    }
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

/* Stores a line of a code object, unless it was since `take`. Returns what Python is to do with the line. */
static PyObject *record(PyObject *code, word number) {
    entry *of = places ? find(entries, places, code) : 0;
    word at = of ? number - of->first : 0;
    if (!of || !of->code || at >= of->count) {
        has_disabled = 1;
        return answer(disable);
    }
    line *one = &of->lines[at];
    if (one->time != now) {
        one->time = now;
        one->executions = 0;
        store(of->base + number);
    }
    if (++one->executions < EXECUTIONS_MAX)
        return answer(none);
    has_disabled = 1;
    return answer(disable);
}

/* executed(code, line): the callback for lines. */
static PyObject *executed(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    return number == 2 ? record(arguments[0], (word)PyLong_AsLong(arguments[1])) : answer(none);
}

/* began(code, offset): the callback for the start of a function that has one line. */
static PyObject *began(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    entry *of = number == 2 && places ? find(entries, places, arguments[0]) : 0;
    return of ? record(arguments[0], of->first) : answer(none);
}

/* watch(code, base, first, count): adds a code object. Returns 0 if there is no memory for it. */
static PyObject *watch(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    if (number != 4)
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
    *one = (entry){arguments[0], (word)PyLong_AsLong(arguments[1]), (word)PyLong_AsLong(arguments[2]), lines, memory};
    return PyLong_FromLong(1);
}

/* take(): the words since the last call, as bytes. */
static PyObject *take(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)words, (Py_ssize_t)(count * sizeof(word)));
    if (bytes) {
        count = 0;
        now++;
    }
    return bytes;
}

/* disabled(): whether lines were turned off since the last call. */
static PyObject *disabled(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self, (void)arguments, (void)number;
    word had = has_disabled;
    has_disabled = 0;
    return PyLong_FromLong((long)had);
}

/* start(none, disable): what the callbacks return. */
static PyObject *start(PyObject *self, PyObject *const *arguments, Py_ssize_t number) {
    (void)self;
    if (number == 2) {
        none = answer(arguments[0]);
        disable = answer(arguments[1]);
    }
    return PyLong_FromLong(number == 2);
}

static PyMethodDef methods[] = {
    {"start", start, METH_FASTCALL, 0},
    {"watch", watch, METH_FASTCALL, 0},
    {"executed", executed, METH_FASTCALL, 0},
    {"began", began, METH_FASTCALL, 0},
    {"take", take, METH_FASTCALL, 0},
    {"disabled", disabled, METH_FASTCALL, 0},
    {0, 0, 0, 0},
};

static PyModuleDef definition = {.references = 1, .name = "proctor_lines", .size = -1, .methods = methods};

__attribute__((visibility("default"))) PyObject *PyInit_proctor_lines(void) {
    return PyModule_Create2(&definition, PYTHON_ABI_VERSION);
}
