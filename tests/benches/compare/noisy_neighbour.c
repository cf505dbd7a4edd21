/* A program whose runs disturb their neighbours or are hard to kill.
 * `neighbour forks | memory | idle COUNT | spinning COUNT`; prints "ready" once all processes run, and never exits by itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void ready(void) {
    puts("ready");
    fflush(stdout);
}

/* Every process forks without end, also after a refusal. */
static void forks(void) {
    ready();
    for (;;) fork();
}

/* Allocates memory until it is killed for it. */
static void memory(void) {
    ready();
    for (;;) {
        char *bytes = malloc(1 << 20);
        if (bytes != NULL) memset(bytes, 1, 1 << 20);
    }
}

/* Starts `count` children that wait until all of them run, and then sleep or spin. */
static void children(long count, int spinning) {
    int gate[2];
    if (pipe(gate) != 0) exit(1);
    for (long i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) exit(1);
        if (child > 0) continue;
        char nothing;
        close(gate[1]);
        while (read(gate[0], &nothing, 1) > 0) continue;
        for (;;) if (!spinning) pause();
    }
    close(gate[1]);
    ready();
    for (;;) pause();
}

int main(int count, char **args) {
    const char *what = count > 1 ? args[1] : "";
    if (strcmp(what, "forks") == 0) forks();
    if (strcmp(what, "memory") == 0) memory();
    if (count > 2) children(strtol(args[2], NULL, 10), strcmp(what, "spinning") == 0);
    return 1;
}
