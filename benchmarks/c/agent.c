/* An agent that is not the bottleneck: one thread, epoll, a wheel of 40 slots over the 20 ms.
 *
 *     agent LOG ENDPOINT_MS DELAY_MS JITTER_MS RESPONSE_MS [CERTIFICATE KEY]
 *
 * Prints `READY ws://127.0.0.1:PORT`. It sends every call a frame every 20 ms: silence, or a tone while it replies.
 * A turn of the caller ends after ENDPOINT_MS without speech; the reply comes DELAY_MS and up to JITTER_MS later, in the
 * call's next frame. On SIGTERM it ends. LOG gets one JSON line per call, with the keys of `voicebench agent --log` that
 * benchmarks need (speech_end_ns, reply_start_ns, CLOCK_MONOTONIC), with reply_heard_ns: when the reply sounds in a player
 * that queues what it gets, so that every frame sent late delays all behind it. At the end comes a line about itself.
 */
#define _GNU_SOURCE
#include "common.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>
#ifdef WITH_TLS
#include <openssl/ssl.h>
#endif

#define SLOTS 40
#define SLOT_NS (FRAME_NS / SLOTS)
#define MAX_TURNS 128
#define LATE_BINS 100000 /* of 10 us */
#define WIRE_BYTES (4 + FRAME_BYTES)

enum state { HANDSHAKE, LISTENING, WAITING, SPEAKING };

struct turn {
    int64_t speech_end, reply_start, reply_heard;
};

struct call {
    int fd, slot, turns, heard, frames_left;
    enum state state;
    int64_t silence_ns, speech_end, reply_at, queued_until; /* until when a player has something to play */
    uint32_t random;
    struct turn turn[MAX_TURNS];
    char id[64];
    size_t held; /* bytes of an incomplete message */
    uint8_t hold[4096];
    size_t unsent; /* bytes of a frame that the kernel did not take */
    uint8_t rest[WIRE_BYTES];
    struct call *before, *after; /* in its slot */
#ifdef WITH_TLS
    SSL *tls;
#endif
};

static struct call *slots[SLOTS];
static int filled[SLOTS];
static int64_t endpoint_ns, delay_ns, jitter_ns, realtime_offset;
static int response_frames;
static long calls, dropped, late[LATE_BINS];
static int64_t latest;
static int16_t tone[SAMPLES];
static FILE *logfile;
static volatile sig_atomic_t stopped;
#ifdef WITH_TLS
static SSL_CTX *context;
#endif

static void stop(int number) {
    (void)number;
    stopped = 1;
}

/* SHA-1 and base64, for Sec-WebSocket-Accept. */

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void sha1(const char *text, uint8_t digest[20]) {
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    uint8_t data[192] = {0};
    size_t size = strlen(text), total = (size + 9 + 63) / 64 * 64;
    memcpy(data, text, size);
    data[size] = 0x80;
    for (int i = 0; i < 4; i++) data[total - 1 - i] = (uint8_t)(size * 8 >> (8 * i));
    for (size_t block = 0; block < total; block += 64) {
        uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
        for (int i = 0; i < 16; i++) {
            const uint8_t *p = data + block + 4 * i;
            w[i] = (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
        }
        for (int i = 16; i < 80; i++) w[i] = rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        for (int i = 0; i < 80; i++) {
            uint32_t f = i < 20 ? ((b & c) | (~b & d)) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
            static const uint32_t k[4] = {0x5A827999, 0x6ED9EBA1, 0x8F1BBCDC, 0xCA62C1D6};
            uint32_t next = rotate(a, 5) + f + e + k[i / 20] + w[i];
            e = d, d = c, c = rotate(b, 30), b = a, a = next;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
    }
    for (int i = 0; i < 20; i++) digest[i] = (uint8_t)(h[i / 4] >> (24 - 8 * (i % 4)));
}

static void base64(const uint8_t digest[20], char text[29]) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int i = 0, at = 0; i < 21; i += 3) {
        uint32_t bits = (uint32_t)digest[i] << 16 | (uint32_t)digest[i + 1] << 8 | (i + 2 < 20 ? digest[i + 2] : 0);
        for (int k = 0; k < 4; k++) text[at++] = letters[bits >> (18 - 6 * k) & 63];
    }
    text[27] = '=', text[28] = 0;
}

/* Reading and writing, in the clear or not. Both return -1 with errno EAGAIN if they would wait. */

static ssize_t call_write(struct call *call, const void *data, size_t size) {
#ifdef WITH_TLS
    if (call->tls) {
        int done = SSL_write(call->tls, data, (int)size);
        if (done > 0) return done;
        int why = SSL_get_error(call->tls, done);
        errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
        return -1;
    }
#endif
    return send(call->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static ssize_t call_read(struct call *call, void *data, size_t size, int64_t *arrived) {
    *arrived = 0;
#ifdef WITH_TLS
    if (call->tls) {
        int done = SSL_read(call->tls, data, (int)size);
        *arrived = now_ns();
        if (done > 0) return done;
        int why = SSL_get_error(call->tls, done);
        if (why == SSL_ERROR_ZERO_RETURN) return 0;
        errno = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE ? EAGAIN : EPIPE;
        return -1;
    }
#endif
    char control[CMSG_SPACE(sizeof(struct timespec))];
    struct iovec where = {data, size};
    struct msghdr message = {.msg_iov = &where, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t done = recvmsg(call->fd, &message, MSG_DONTWAIT);
    struct cmsghdr *header = done > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (header && header->cmsg_type == SO_TIMESTAMPNS) {
        struct timespec stamp;
        memcpy(&stamp, CMSG_DATA(header), sizeof stamp);
        *arrived = stamp.tv_sec * SECOND + stamp.tv_nsec - realtime_offset;
    }
    int64_t now = now_ns();
    if (!*arrived || *arrived > now) *arrived = now;
    return done;
}

static void measure_offset(void) {
    int64_t best = SECOND;
    for (int i = 0; i < 5; i++) {
        int64_t before = now_ns(), real = clock_ns(CLOCK_REALTIME), width = now_ns() - before;
        if (width < best) best = width, realtime_offset = real - before - width / 2;
    }
}

/* The life of a call. */

static void log_call(struct call *call) {
    if (call->state == HANDSHAKE) return;
    fprintf(logfile, "{\"call_id\": \"%s\", \"turns\": [", call->id);
    for (int i = 0; i < call->turns; i++)
        fprintf(logfile, "%s{\"speech_end_ns\": %lld, \"reply_start_ns\": %lld, \"reply_heard_ns\": %lld}",
                i ? ", " : "", (long long)call->turn[i].speech_end, (long long)call->turn[i].reply_start,
                (long long)call->turn[i].reply_heard);
    fprintf(logfile, "]}\n");
}

static void end_call(struct call *call) {
    log_call(call);
    if (call->slot >= 0) {
        if (call->before) call->before->after = call->after;
        else slots[call->slot] = call->after;
        if (call->after) call->after->before = call->before;
        filled[call->slot]--;
    }
#ifdef WITH_TLS
    if (call->tls) SSL_free(call->tls);
#endif
    close(call->fd);
    free(call);
}

static void open_call(int epoll, int listener) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    struct call *call = calloc(1, sizeof *call);
    if (!call) die("calloc");
    call->fd = fd, call->slot = -1, call->random = (uint32_t)++calls * 2654435761u;
#ifdef WITH_TLS
    if (context) {
        call->tls = SSL_new(context);
        SSL_set_fd(call->tls, fd);
        SSL_set_accept_state(call->tls);
    }
#endif
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = call};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

static int header_value(const char *request, const char *name, char *value, size_t room) {
    const char *found = strcasestr(request, name);
    if (!found) return 0;
    found += strlen(name);
    while (*found == ' ') found++;
    size_t size = strcspn(found, "\r\n");
    if (size >= room) return 0;
    memcpy(value, found, size);
    value[size] = 0;
    return 1;
}

/* Answers once the request is whole. Returns 0 if the call has to end. */
static int shake_hands(struct call *call) {
    char key[100], accept[29], answer[256];
    uint8_t digest[21] = {0};
    call->hold[call->held < sizeof call->hold ? call->held : sizeof call->hold - 1] = 0;
    if (!strstr((char *)call->hold, "\r\n\r\n")) return call->held < sizeof call->hold - 1;
    if (!header_value((char *)call->hold, "\r\nSec-WebSocket-Key:", key, 60)) return 0;
    if (!header_value((char *)call->hold, "\r\nX-Call-Id:", call->id, sizeof call->id)) strcpy(call->id, "?");
    strcat(key, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    sha1(key, digest);
    base64(digest, accept);
    int size = snprintf(answer, sizeof answer,
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        "Sec-WebSocket-Accept: %s\r\n\r\n", accept);
    if (call_write(call, answer, (size_t)size) != size) return 0;
    call->held = 0;
    call->state = LISTENING;
    int least = 0;
    for (int i = 0; i < SLOTS; i++) {
        int slot = i * 17 % SLOTS; /* neighbours are filled long after one another */
        if (filled[slot] < filled[least]) least = slot;
    }
    call->slot = least, call->after = slots[least];
    if (call->after) call->after->before = call;
    slots[least] = call, filled[least]++;
    return 1;
}

static void hear(struct call *call, const int16_t *samples, int count, int64_t arrived) {
    int last = 0; /* ms of the frame up to the end of what is loud in it */
    int64_t total = 0, loud = threshold(BLOCK);
    for (int at = 0; at < count; at += BLOCK) {
        int64_t block = energy(samples + at, count - at < BLOCK ? count - at : BLOCK);
        total += block;
        if (block >= loud) last = at / BLOCK + 1;
    }
    if (call->state != LISTENING) return;
    int64_t duration = count * (MS / BLOCK);
    if (last && (call->heard || total >= threshold(count))) call->speech_end = arrived + last * MS;
    if (total >= threshold(count)) {
        call->heard = 1, call->silence_ns = 0;
        return;
    }
    call->silence_ns += duration;
    if (!call->heard || call->silence_ns < endpoint_ns) return;
    call->random = call->random * 1664525u + 1013904223u;
    call->reply_at = arrived + duration + delay_ns + jitter_ns * (call->random >> 16) / 65536;
    call->heard = 0, call->state = WAITING;
    if (call->turns < MAX_TURNS) call->turn[call->turns++] = (struct turn){call->speech_end, 0, 0};
}

/* Takes whole messages out of what was read. Returns 0 if the call has to end. */
static int parse(struct call *call, int64_t arrived) {
    size_t at = 0;
    while (call->held - at >= 6) {
        const uint8_t *frame = call->hold + at;
        size_t size = frame[1] & 127, head = 6;
        if (!(frame[1] & 128) || size == 127) return 0;
        if (size == 126) {
            if (call->held - at < 8) break;
            size = (size_t)frame[2] << 8 | frame[3], head = 8;
        }
        if (head + size > sizeof call->hold) return 0;
        if (call->held - at < head + size) break;
        int opcode = frame[0] & 15;
        if (opcode == 8) {
            static const uint8_t goodbye[4] = {0x88, 2, 3, 232};
            if (!call->unsent) (void)!call_write(call, goodbye, sizeof goodbye);
            return 0;
        }
        if (opcode == 2) {
            int16_t samples[2048];
            unmask((uint8_t *)samples, frame + head, size, frame + head - 4);
            hear(call, samples, (int)size / 2, arrived);
        }
        at += head + size;
    }
    call->held -= at;
    memmove(call->hold, call->hold + at, call->held);
    return 1;
}

static void read_call(struct call *call) {
    for (int again = 1; again;) {
        int64_t arrived;
        size_t room = sizeof call->hold - call->held;
        ssize_t done = call_read(call, call->hold + call->held, room, &arrived);
        if (done < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (done > 0) call->held += (size_t)done;
        if (done <= 0 || !(call->state == HANDSHAKE ? shake_hands(call) : parse(call, arrived))) {
            end_call(call);
            return;
        }
        again = 0;
#ifdef WITH_TLS
        again = call->tls != NULL; /* what OpenSSL has read already, epoll does not tell of */
#endif
    }
}

static void speak(struct call *call, int64_t due) {
    static uint8_t wire[WIRE_BYTES] = {0x82, 126, FRAME_BYTES >> 8, FRAME_BYTES & 255};
    int16_t samples[SAMPLES] = {0};
    if (call->unsent) {
        ssize_t done = call_write(call, call->rest, call->unsent);
        if (done > 0) call->unsent -= (size_t)done, memmove(call->rest, call->rest + done, call->unsent);
        if (call->unsent) {
            dropped++;
            return;
        }
    }
    int64_t now = now_ns();
    if (call->state == WAITING && now >= call->reply_at) {
        call->state = SPEAKING, call->frames_left = response_frames;
        call->turn[call->turns - 1].reply_start = now;
        call->turn[call->turns - 1].reply_heard = now > call->queued_until ? now : call->queued_until;
    }
    call->queued_until = (now > call->queued_until ? now : call->queued_until) + FRAME_NS;
    if (call->state == SPEAKING) {
        memcpy(samples, tone, sizeof samples);
        if (!--call->frames_left) call->state = LISTENING, call->silence_ns = 0;
    }
    put_stamp(samples, now);
    memcpy(wire + 4, samples, sizeof samples);
    ssize_t done = call_write(call, wire, sizeof wire);
    if (done < 0) {
        dropped++; /* a call that has ended is noticed when it is read */
    } else if (done < (ssize_t)sizeof wire) {
        call->unsent = sizeof wire - (size_t)done;
        memcpy(call->rest, wire + done, call->unsent);
    }
    int64_t lag = now - due;
    late[lag / 10000 < LATE_BINS ? lag / 10000 : LATE_BINS - 1]++;
    if (lag > latest) latest = lag;
}

static double late_ms(double share) {
    long total = 0, sum = 0;
    for (int i = 0; i < LATE_BINS; i++) total += late[i];
    for (int i = 0; i < LATE_BINS; i++)
        if ((sum += late[i]) >= share * (double)total) return (i + 0.5) / 100;
    return 0;
}

static int listen_somewhere(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) die("listen");
    getsockname(listener, (struct sockaddr *)&address, &size);
#ifdef WITH_TLS
    const char *scheme = context ? "wss" : "ws";
#else
    const char *scheme = "ws";
#endif
    printf("READY %s://127.0.0.1:%d\n", scheme, ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void secure(const char *certificate, const char *key) {
#ifdef WITH_TLS
    context = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    if (SSL_CTX_use_certificate_chain_file(context, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1) {
        fprintf(stderr, "agent: cannot use %s, %s\n", certificate, key);
        exit(2);
    }
#else
    (void)certificate, (void)key;
    fprintf(stderr, "agent: built without TLS\n");
    exit(2);
#endif
}

int main(int count, char **arguments) {
    if (count != 6 && count != 8)
        return fprintf(stderr, "usage: agent LOG ENDPOINT_MS DELAY_MS JITTER_MS RESPONSE_MS [CERTIFICATE KEY]\n"), 2;
    if (!(logfile = fopen(arguments[1], "w"))) die(arguments[1]);
    endpoint_ns = atoi(arguments[2]) * MS, delay_ns = atoi(arguments[3]) * MS, jitter_ns = atoi(arguments[4]) * MS;
    response_frames = atoi(arguments[5]) / 20;
    if (count == 8) secure(arguments[6], arguments[7]);
    make_tone(tone);
    signal(SIGTERM, stop), signal(SIGINT, SIG_IGN), signal(SIGPIPE, SIG_IGN);
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    int listener = listen_somewhere(), epoll = epoll_create1(0), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec every = {{0, SLOT_NS}, {0, SLOT_NS}};
    timerfd_settime(timer, 0, &every, NULL);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listener}, events[64];
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    event.data.ptr = &timer;
    epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
    measure_offset();
    int64_t origin = now_ns(), ticks = 0;
    while (!stopped) {
        int ready = epoll_wait(epoll, events, 64, 100);
        int64_t now = now_ns(), upto = (now - origin) / SLOT_NS;
        if (upto - ticks > SLOTS) ticks = upto - SLOTS; /* missed frames are not sent in a burst */
        while (ticks < upto) {
            ticks++;
            if (ticks % 2000 == 0) measure_offset();
            for (struct call *call = slots[ticks % SLOTS]; call; call = call->after) speak(call, origin + ticks * SLOT_NS);
        }
        for (int i = 0; i < ready; i++) {
            uint64_t fired;
            if (events[i].data.ptr == &timer) (void)!read(timer, &fired, sizeof fired);
            else if (events[i].data.ptr == &listener) open_call(epoll, listener);
            else read_call(events[i].data.ptr);
        }
    }
    for (int slot = 0; slot < SLOTS; slot++)
        for (struct call *call = slots[slot]; call; call = call->after) log_call(call);
    fprintf(logfile, "{\"calls\": %ld, \"dropped_frames\": %ld, \"late_ms\": {\"p50\": %.3f, \"p99\": %.3f, \"max\": %.3f}}\n",
            calls, dropped, late_ms(0.5), late_ms(0.99), (double)latest / 1e6);
    return fclose(logfile) ? 1 : 0;
}
