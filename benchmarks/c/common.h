/* What the benchmark's C programs share: time, the wire, levels.
 *
 * Every frame holds 20 ms of PCM16LE mono at 16 kHz. The agent hides the instant at which it sends a frame
 * (CLOCK_MONOTONIC, ns) in the low four bits of the frame's first 16 samples, the lowest nibble first: at most
 * -79 dBFS over the frame, so that a silent frame stays silent for every detector. */

#ifndef COMMON_H
#define COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MS 1000000LL
#define SECOND 1000000000LL
#define FRAME_NS (20 * MS)
#define SAMPLES 320
#define FRAME_BYTES (2 * SAMPLES)
#define BLOCK 16 /* samples in a millisecond */
#define PERIOD 40 /* samples of the 400 Hz tone; eight periods fill a frame, so that frames join */
#define PI 3.14159265358979323846

static inline int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static inline int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

static inline void unmask(uint8_t *to, const uint8_t *from, size_t size, const uint8_t mask[4]) {
    uint32_t pattern, word;
    memcpy(&pattern, mask, 4);
    size_t at = 0;
    for (; at + 4 <= size; at += 4) {
        memcpy(&word, from + at, 4);
        word ^= pattern;
        memcpy(to + at, &word, 4);
    }
    for (; at < size; at++) to[at] = from[at] ^ mask[at & 3];
}

/* Sum of squares: at -20 dBFS a frame has 3.4e9, at -45 dBFS 1.1e7. */
static inline int64_t energy(const int16_t *samples, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++) sum += (int32_t)samples[i] * samples[i];
    return sum;
}

/* -45 dBFS over so many samples. */
static inline int64_t threshold(int count) { return (int64_t)(count * 32768.0 * 32768.0 * 3.1622776601683795e-5); }

/* One period of a tone of -20 dBFS that begins at its peak: loud from its first sample on. cos() by recurrence,
 * which spares linking libm. */
static inline void make_tone(int16_t *samples) {
    const double step = 0.98768834059513773; /* cos(2 pi / 40) */
    double before = step, now = 1.0;
    for (int i = 0; i < SAMPLES; i++) {
        samples[i] = (int16_t)(4634.0 * now);
        double next = 2 * step * now - before;
        before = now;
        now = (i + 1) % PERIOD == 0 ? 1.0 : next;
        if ((i + 1) % PERIOD == 0) before = step;
    }
}

static inline void put_stamp(int16_t *samples, int64_t at_ns) {
    for (int i = 0; i < 16; i++, at_ns >>= 4) samples[i] = (int16_t)((samples[i] & ~15) | (at_ns & 15));
}

static inline int64_t get_stamp(const int16_t *samples) {
    uint64_t at_ns = 0;
    for (int i = 15; i >= 0; i--) at_ns = at_ns << 4 | (samples[i] & 15);
    return (int64_t)at_ns;
}

#endif
