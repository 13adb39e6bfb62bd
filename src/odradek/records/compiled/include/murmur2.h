/* Murmur2 as in Kafka's Java clients, for the partition of a key. */

#ifndef ODRADEK_MURMUR2_H
#define ODRADEK_MURMUR2_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t odr_murmur2(const uint8_t *p, size_t n) {
    const uint32_t m = 0x5bd1e995;
    uint32_t h = 0x9747b28cu ^ (uint32_t)n;
    while (n >= 4) {
        uint32_t k = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m;
        k ^= k >> 24;
        h = h * m ^ k * m;
        p += 4;
        n -= 4;
    }
    switch (n) {
    case 3: h ^= (uint32_t)p[2] << 16; /* fall through */
    case 2: h ^= (uint32_t)p[1] << 8;  /* fall through */
    case 1: h ^= p[0]; h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ h >> 15;
}

#endif
