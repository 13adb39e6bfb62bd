/* Big-endian numbers, and sums that stay within int64. */

#ifndef ODRADEK_NUMBERS_H
#define ODRADEK_NUMBERS_H

#include <stdint.h>

static inline uint64_t odr_get(const uint8_t *p, int n) {
    uint64_t value = 0;
    for (int at = 0; at < n; at++) value = value << 8 | p[at];
    return value;
}
static inline int64_t odr_int64(const uint8_t *p) { return (int64_t)odr_get(p, 8); }
static inline int32_t odr_int32(const uint8_t *p) { return (int32_t)odr_get(p, 4); }
static inline int16_t odr_int16(const uint8_t *p) { return (int16_t)odr_get(p, 2); }
static inline void odr_put(uint8_t *p, uint64_t value, int n) {
    while (n--) { p[n] = (uint8_t)value; value >>= 8; }
}

static inline int64_t odr_wrapped_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t odr_wrapped_difference(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static inline int64_t odr_saturated_sum(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a < 0 ? INT64_MIN : INT64_MAX) : sum;
}

#endif
