/* Was the machine on time? Wakes every millisecond on one core, above everybody else if it may, and writes down
 * when it woke more than 0.1 ms late: pairs of int64 (due, woke) in CLOCK_MONOTONIC ns on standard output.
 *
 *     sentinel CORE > FILE      until SIGTERM; says on standard error at which priority it runs
 */
#define _GNU_SOURCE
#include "common.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static volatile sig_atomic_t stopped;

static void stop(int number) {
    (void)number;
    stopped = 1;
}

int main(int count, char **arguments) {
    if (count != 2) return fprintf(stderr, "usage: sentinel CORE\n"), 2;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(atoi(arguments[1]), &cores);
    if (sched_setaffinity(0, sizeof cores, &cores)) die("sched_setaffinity");
    struct sched_param priority = {.sched_priority = 50};
    const char *how = "SCHED_FIFO";
    if (sched_setscheduler(0, SCHED_FIFO, &priority)) how = setpriority(PRIO_PROCESS, 0, -20) ? "normal" : "nice -20";
    mlockall(MCL_CURRENT);
    prctl(PR_SET_TIMERSLACK, 1);
    fprintf(stderr, "%s\n", how);
    signal(SIGTERM, stop);
    signal(SIGINT, SIG_IGN);
    int64_t due = now_ns() + MS;
    while (!stopped) {
        struct timespec until = {due / SECOND, due % SECOND};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
        int64_t pair[2] = {due, now_ns()};
        if (pair[1] - due > MS / 10) fwrite(pair, sizeof pair, 1, stdout);
        due += MS;
        if (due < pair[1]) due = pair[1] + MS;
    }
    return fflush(stdout) ? 1 : 0;
}
