/* The limit: what an event-driven client in C holds, doing a caller's work and nothing else. One thread, one epoll, a
 * timerfd that ticks every 0.5 ms: to arm it for every single frame costs a virtual machine a third of its time.
 *
 *     client PORT CALLS SECONDS OUT
 *
 * Every call sends a frame every 20 ms, keeps what it receives, takes the level of each frame, and speaks for SPEECH
 * frames: 300 ms after the agent's reply has ended, so that the next turn waits for what is heard. Times are those of
 * reading, as an event loop gives them. OUT.* are what clients/__init__.py describes.
 */
#define _GNU_SOURCE
#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define SPEECH 30 /* frames */
#define PAUSE_FRAMES 15
#define QUIET_FRAMES 13 /* without speech: the reply has ended */
#define WIRE_BYTES (8 + FRAME_BYTES)
#define TICK_NS (MS / 2)
#define RAMP_NS SECOND /* after this, everything counts */

struct call {
    int fd, number, loud_left, quiet, replying, waiting;
    int64_t speak_at, speech_end; /* due time of the next turn's first frame, 0 while that is not known */
    int64_t due;
    size_t held, kept, room, unsent;
    uint8_t hold[2048], rest[WIRE_BYTES];
    uint8_t *recording;
};

struct log {
    int64_t *values;
    size_t count, room;
};

static struct log sent, received, turns;
static uint8_t silent[WIRE_BYTES], loud[WIRE_BYTES];
static long stalled;

static void add(struct log *log, int64_t value) {
    if (log->count == log->room) {
        log->room = log->room ? 2 * log->room : 1 << 16;
        if (!(log->values = realloc(log->values, log->room * sizeof value))) die("realloc");
    }
    log->values[log->count++] = value;
}

static void save(struct log *log, const char *out, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%s", out, name);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(log->values, sizeof(int64_t), log->count, file) != log->count || fclose(file)) die(path);
}

static void make_frame(uint8_t wire[WIRE_BYTES], const int16_t *samples) {
    static const uint8_t mask[4] = {0x12, 0x34, 0x56, 0x78};
    wire[0] = 0x82, wire[1] = 0x80 | 126, wire[2] = FRAME_BYTES >> 8, wire[3] = FRAME_BYTES & 255;
    memcpy(wire + 4, mask, 4);
    unmask(wire + 8, (const uint8_t *)samples, FRAME_BYTES, mask);
}

static void dial(struct call *call, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    char text[512];
    call->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(call->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    int size = snprintf(text, sizeof text,
                        "GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nX-Call-Id: %d\r\n\r\n",
                        port, call->number), at = 0;
    if (write(call->fd, text, (size_t)size) != size) die("write");
    while (at < 4 || memcmp(text + at - 4, "\r\n\r\n", 4))
        if (at >= (int)sizeof text || read(call->fd, text + at++, 1) != 1) die("handshake");
    if (memcmp(text, "HTTP/1.1 101", 12)) die("the agent refused the call");
    int on = 1;
    setsockopt(call->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(call->fd, F_SETFL, O_NONBLOCK);
}

static void say(struct call *call) {
    const uint8_t *wire = silent;
    if (call->speak_at && call->due >= call->speak_at) call->loud_left = SPEECH, call->speak_at = 0;
    if (call->loud_left) wire = loud;
    if (call->unsent) {
        ssize_t done = send(call->fd, call->rest, call->unsent, MSG_NOSIGNAL);
        if (done > 0) call->unsent -= (size_t)done, memmove(call->rest, call->rest + done, call->unsent);
    }
    int64_t now = now_ns();
    ssize_t done = call->unsent ? 0 : send(call->fd, wire, WIRE_BYTES, MSG_NOSIGNAL);
    if (done <= 0) stalled++;
    else if (done < WIRE_BYTES) memcpy(call->rest, wire + done, call->unsent = (size_t)(WIRE_BYTES - done));
    add(&sent, call->due), add(&sent, now);
    if (call->loud_left && !--call->loud_left) call->speech_end = now + FRAME_NS, call->waiting = 1;
    call->due += FRAME_NS;
}

static void take(struct call *call, const uint8_t *payload, int64_t arrived) {
    int16_t samples[SAMPLES];
    memcpy(samples, payload, FRAME_BYTES);
    add(&received, arrived), add(&received, get_stamp(samples));
    if (call->kept + FRAME_BYTES > call->room) {
        call->room = call->room ? 2 * call->room : 1 << 18;
        if (!(call->recording = realloc(call->recording, call->room))) die("realloc");
    }
    memcpy(call->recording + call->kept, payload, FRAME_BYTES);
    call->kept += FRAME_BYTES;
    if (energy(samples, SAMPLES) >= threshold(SAMPLES)) {
        if (call->waiting) {
            add(&turns, call->number), add(&turns, call->speech_end);
            add(&turns, arrived - call->speech_end), add(&turns, 0);
            call->waiting = 0;
        }
        call->replying = 1, call->quiet = 0;
    } else if (call->replying && ++call->quiet == QUIET_FRAMES) {
        call->replying = 0;
        call->speak_at = call->due + (PAUSE_FRAMES - QUIET_FRAMES) * FRAME_NS;
    }
}

static void hear(struct call *call) {
    ssize_t done = recv(call->fd, call->hold + call->held, sizeof call->hold - call->held, 0);
    if (done < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (done <= 0) die("the agent hung up");
    int64_t arrived = now_ns();
    size_t at = 0;
    call->held += (size_t)done;
    for (; call->held - at >= 4 + FRAME_BYTES; at += 4 + FRAME_BYTES) take(call, call->hold + at + 4, arrived);
    call->held -= at;
    memmove(call->hold, call->hold + at, call->held);
}

static double cpu_s(void) { return (double)clock_ns(CLOCK_PROCESS_CPUTIME_ID) / 1e9; }

static double waited_s(void) {
    long long waited = 0;
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (!file || fscanf(file, "%*d %lld", &waited) != 1) die("schedstat");
    fclose(file);
    return (double)waited / 1e9;
}

static long rss_kib(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%*d %ld", &pages) != 1) die("statm");
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int count, char **arguments) {
    if (count != 5) return fprintf(stderr, "usage: client PORT CALLS SECONDS OUT\n"), 2;
    int port = atoi(arguments[1]), size = atoi(arguments[2]), next = 0, counting = 0;
    int64_t length = (int64_t)(atof(arguments[3]) * 1e9);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int16_t samples[SAMPLES] = {0};
    make_frame(silent, samples);
    make_tone(samples);
    make_frame(loud, samples);
    struct call *calls = calloc((size_t)size, sizeof *calls);
    int epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec every = {{0, TICK_NS}, {0, TICK_NS}};
    timerfd_settime(timer, 0, &every, NULL);
    struct epoll_event event = {.events = EPOLLIN}, events[32];
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
    long rss_before = rss_kib();
    for (int i = 0; i < size; i++) {
        calls[i].number = i;
        dial(&calls[i], port);
        event.data.ptr = &calls[i];
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, calls[i].fd, &event)) die("epoll_ctl");
    }
    int64_t origin = now_ns() + 20 * MS, end = origin + RAMP_NS + length, start = origin + RAMP_NS;
    double cpu_before = 0, waited = 0;
    for (int i = 0; i < size; i++) { /* phases over the 20 ms, first turns over 2 s */
        calls[i].due = origin + FRAME_NS * i / size / TICK_NS * TICK_NS;
        calls[i].speak_at = origin + (i * 37 % 100) * FRAME_NS;
    }
    for (int64_t now = now_ns(); now < end; now = now_ns()) {
        if (!counting && now >= start) counting = 1, cpu_before = cpu_s(), waited = waited_s();
        for (int budget = 64; budget && calls[next].due <= now; budget--) say(&calls[next]), next = (next + 1) % size;
        int ready = epoll_wait(epoll, events, 32, calls[next].due <= now ? 0 : 100);
        for (int i = 0; i < ready; i++) {
            uint64_t fired;
            if (events[i].data.ptr) hear(events[i].data.ptr);
            else (void)!read(timer, &fired, sizeof fired);
        }
    }
    double cpu = cpu_s() - cpu_before;
    waited = waited_s() - waited;
    save(&sent, arguments[4], "sent"), save(&received, arguments[4], "received"), save(&turns, arguments[4], "turns");
    char path[4096];
    snprintf(path, sizeof path, "%s.json", arguments[4]);
    FILE *file = fopen(path, "w");
    if (!file) die(path);
    fprintf(file,
            "{\"start_ns\": %lld, \"end_ns\": %lld, \"cpu_s\": %.4f, \"waited_s\": %.4f, \"rss_before_kib\": %ld, \"rss_after_kib\": %ld,"
            " \"started\": %d, \"failed\": 0, \"stamps\": \"wakeup\", \"stalled\": %ld}\n",
            (long long)start, (long long)end, cpu, waited, rss_before, rss_kib(), size, stalled);
    return fclose(file) ? 1 : 0;
}
