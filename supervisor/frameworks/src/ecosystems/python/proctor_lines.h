/* What the two parts of the extension module share: what they declare of Python's, and the storage of `proctor_lines.c` as
   `proctor_tracer.c` uses it.

   The module needs neither Python's headers nor a C library, so that one file serves every Python of its architecture from 3.9 on: all of
   this is found in the process that loads it. All functions are called with the GIL held, and never from a Python without one. */

#ifndef PROCTOR_LINES_H
#define PROCTOR_LINES_H

typedef struct _object PyObject;
typedef struct _frame PyFrameObject;
typedef struct _thread PyThreadState;
typedef __PTRDIFF_TYPE__ Py_ssize_t;
typedef __SIZE_TYPE__ size_t;
typedef __UINT32_TYPE__ word;
typedef unsigned __int128 set;
typedef PyObject *(*function)(PyObject *self, PyObject *const *arguments, Py_ssize_t count);
typedef int (*trace_function)(PyObject *object, PyFrameObject *frame, int what, PyObject *value);

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

/* The head of every object. */
struct _object {
    Py_ssize_t references;
    void *type;
};

#define METH_FASTCALL 0x0080
#define PYTHON_ABI_VERSION 3

/* What happens to a frame, as a tracer is told. */
enum { TRACE_CALL = 0, TRACE_LINE = 2, TRACE_RETURN = 3 };

extern char PyCell_Type[];
extern PyObject _Py_NoneStruct;

PyObject *PyModule_Create2(PyModuleDef *definition, int version);
PyObject *PyBytes_FromStringAndSize(const char *bytes, Py_ssize_t size);
PyObject *PyLong_FromLong(long number);
long PyLong_AsLong(PyObject *number);
void *PyMem_RawMalloc(size_t size);
void *PyMem_RawRealloc(void *memory, size_t size);
void *PyMem_RawCalloc(size_t count, size_t size);
void PyMem_RawFree(void *memory);
void Py_IncRef(PyObject *object);
void Py_DecRef(PyObject *object);
PyObject *PyObject_CallNoArgs(PyObject *callable);
PyObject *PyObject_CallFunctionObjArgs(PyObject *callable, ...);
PyFrameObject *PyEval_GetFrame(void);
void PyEval_SetTrace(trace_function function, PyObject *object);
PyFrameObject *PyFrame_GetBack(PyFrameObject *frame);
PyObject *PyFrame_GetCode(PyFrameObject *frame);
int PyFrame_GetLineNumber(PyFrameObject *frame);
PyObject *PyCell_Get(PyObject *cell);
PyObject *PyWeakref_NewRef(PyObject *object, PyObject *callback);
int PyUnicode_CompareWithASCIIString(PyObject *text, const char *other);
void PyErr_Clear(void);
int Py_AddPendingCall(int (*function)(void *), void *argument);
unsigned long PyThread_get_thread_ident(void);
void *PyInterpreterState_Get(void);
PyThreadState *PyThreadState_New(void *interpreter);
__UINT64_TYPE__ PyThreadState_GetID(PyThreadState *state);
void PyThreadState_Clear(PyThreadState *state);
void PyThreadState_Delete(PyThreadState *state);

/* From Python 3.12 on. */
__attribute__((weak)) PyObject *PyFrame_GetVarString(PyFrameObject *frame, const char *name);

/* How often a line was executed since `take` was called for the time with this number, and below which functions that keep values it
   ever was. */
typedef struct {
    word time, executions;
    set below;
} line;

/* What is to be known of a code object, as proctor_monitoring.py gives it: it has one line; it keeps values; it may be suspended for others;
   it keeps values in its `self` alone; that a test had this object from another one; and that it is the code of a module. */
enum { ONE_LINE = 1, KEEPS = 2, SUSPENDS = 4, IN_SELF = 8, HANDED_ON = 16, IS_MODULE = 32 };

/* A code object, which proctor_monitoring.py keeps alive. */
typedef struct {
    PyObject *code;
    word flags;
    /* Of a function that keeps values. */
    word number;
    /* The word of line 0. */
    word base;
    /* The first line, and how many follow with it. */
    word first, count;
    line *lines;
} entry;

/* The entry of a code object, valid until the next one is added; none if it is not watched. */
entry *find_code(PyObject *code);

/* Stores a line of a code object, unless it was since `take`. Returns whether it was executed so often that it is better turned off. */
int record_line(entry *of, word number);

/* A function that keeps values begins or goes on. */
void begin_keeping(entry *of);

/* It ends or is suspended. */
void end_keeping(entry *of);

/* The code of a module ends. Returns nothing, with an exception, if what is called for it failed. */
PyObject *end_module(entry *of);

/* The first argument of the function of a frame; none if it is not known. */
PyObject *first_argument(PyFrameObject *frame);

/* No entry is valid any more that the tracer has found. */
void forget_entries(void);

/* The functions of the tracer for Python. */
PyObject *traced(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *install(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *remove_tracer(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *is_setting(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *has_failed(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *learn_layout(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *expect(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *is_in_force(PyObject *self, PyObject *const *arguments, Py_ssize_t number);
PyObject *new_threads(PyObject *self, PyObject *const *arguments, Py_ssize_t number);

#endif
