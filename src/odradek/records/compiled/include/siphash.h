/* SipHash-2-4 with 128 bits of output: a keyed hash, so that collisions cannot be found without the key. Numbers
 * are little-endian on every machine.
 */

#ifndef ODRADEK_SIPHASH_H
#define ODRADEK_SIPHASH_H

#include <stdint.h>
#include <stddef.h>

typedef struct { uint64_t a, b; } odr_hash;

static inline uint64_t odr_little(const uint8_t *p, size_t n) {
    uint64_t value = 0;
    while (n--) value = value << 8 | p[n];
    return value;
}

static inline uint64_t odr_rotated(uint64_t x, int by) { return x << by | x >> (64 - by); }

static inline void odr_sip_round(uint64_t v[4]) {
    v[0] += v[1]; v[1] = odr_rotated(v[1], 13); v[1] ^= v[0]; v[0] = odr_rotated(v[0], 32);
    v[2] += v[3]; v[3] = odr_rotated(v[3], 16); v[3] ^= v[2];
    v[0] += v[3]; v[3] = odr_rotated(v[3], 21); v[3] ^= v[0];
    v[2] += v[1]; v[1] = odr_rotated(v[1], 17); v[1] ^= v[2]; v[2] = odr_rotated(v[2], 32);
}

static inline uint64_t odr_sip_result(uint64_t v[4]) {
    for (int round = 0; round < 4; round++) odr_sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static inline odr_hash odr_siphash(odr_hash seed, const uint8_t *p, size_t n) {
    uint64_t v[4] = {
        seed.a ^ 0x736f6d6570736575u, seed.b ^ 0x646f72616e646f6du ^ 0xee,
        seed.a ^ 0x6c7967656e657261u, seed.b ^ 0x7465646279746573u,
    };
    uint64_t last = (uint64_t)n << 56;
    odr_hash hash;
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word = odr_little(p, 8);
        v[3] ^= word;
        odr_sip_round(v); odr_sip_round(v);
        v[0] ^= word;
    }
    last |= odr_little(p, n);
    v[3] ^= last;
    odr_sip_round(v); odr_sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xee;
    hash.a = odr_sip_result(v);
    v[1] ^= 0xdd;
    hash.b = odr_sip_result(v);
    return hash;
}

#endif
