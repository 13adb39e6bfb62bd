/* CRC-32C.
 *
 * Uses the processor's instruction where available, on three streams at once: the instruction has a latency of
 * three cycles but a throughput of one per cycle. The three results are combined with a table of the effect of a
 * run of zero bytes on a CRC. The portable version uses a table of eight rows.
 */

#ifndef ODRADEK_CRC32C_H
#define ODRADEK_CRC32C_H

#include <stdint.h>
#include <string.h>

static uint32_t odr_rows[8][256];

static void odr_make_rows(void) {
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
        odr_rows[0][n] = crc;
    }
    for (uint32_t n = 0; n < 256; n++)
        for (int row = 1; row < 8; row++)
            odr_rows[row][n] = (odr_rows[row - 1][n] >> 8) ^ odr_rows[0][odr_rows[row - 1][n] & 0xFF];
}

static uint32_t odr_crc_portable(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    while (n >= 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = odr_rows[7][low & 0xFF] ^ odr_rows[6][low >> 8 & 0xFF]
            ^ odr_rows[5][low >> 16 & 0xFF] ^ odr_rows[4][low >> 24]
            ^ odr_rows[3][p[4]] ^ odr_rows[2][p[5]] ^ odr_rows[1][p[6]] ^ odr_rows[0][p[7]];
        p += 8; n -= 8;
    }
    while (n--)
        crc = (crc >> 8) ^ odr_rows[0][(crc ^ *p++) & 0xFF];
    return ~crc;
}

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define ODR_LANE 1024
static int odr_hardware = 0;
static uint32_t odr_zeros[4][256];

__attribute__((target("sse4.2")))
static uint64_t odr_crc_run(uint64_t crc, const uint8_t *p, size_t n) {
    uint64_t word;
    while (n >= 8) {
        memcpy(&word, p, 8);
        crc = __builtin_ia32_crc32di(crc, word);
        p += 8; n -= 8;
    }
    while (n--)
        crc = __builtin_ia32_crc32qi((uint32_t)crc, *p++);
    return crc;
}

static uint32_t odr_skip_lane(uint32_t crc) {
    return odr_zeros[0][crc & 0xFF] ^ odr_zeros[1][crc >> 8 & 0xFF]
         ^ odr_zeros[2][crc >> 16 & 0xFF] ^ odr_zeros[3][crc >> 24];
}

__attribute__((target("sse4.2")))
static uint32_t odr_crc_hardware(uint32_t value, const uint8_t *p, size_t n) {
    uint64_t crc = (uint32_t)~value;
    while (n >= 3 * ODR_LANE) {
        uint64_t second = 0, third = 0, a, b, c;
        for (size_t at = 0; at < ODR_LANE; at += 8) {
            memcpy(&a, p + at, 8);
            memcpy(&b, p + ODR_LANE + at, 8);
            memcpy(&c, p + 2 * ODR_LANE + at, 8);
            crc = __builtin_ia32_crc32di(crc, a);
            second = __builtin_ia32_crc32di(second, b);
            third = __builtin_ia32_crc32di(third, c);
        }
        crc = odr_skip_lane((uint32_t)crc) ^ (uint32_t)second;
        crc = odr_skip_lane((uint32_t)crc) ^ (uint32_t)third;
        p += 3 * ODR_LANE; n -= 3 * ODR_LANE;
    }
    return ~(uint32_t)odr_crc_run(crc, p, n);
}

static void odr_make_zeros(void) {
    static const uint8_t nothing[ODR_LANE];
    for (int row = 0; row < 4; row++)
        for (uint32_t n = 1; n < 256; n++) {
            uint32_t lowest = n & -n;
            odr_zeros[row][n] = lowest == n
                ? (uint32_t)odr_crc_run(n << (8 * row), nothing, ODR_LANE)
                : odr_zeros[row][lowest] ^ odr_zeros[row][n ^ lowest];
        }
}

static void odr_crc_prepare(void) {
    odr_make_rows();
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        odr_make_zeros();
        odr_hardware = 1;
    }
}

static uint32_t odr_crc(uint32_t value, const uint8_t *p, size_t n) {
    return odr_hardware ? odr_crc_hardware(value, p, n) : odr_crc_portable(value, p, n);
}
#else
static void odr_crc_prepare(void) { odr_make_rows(); }
static uint32_t odr_crc(uint32_t value, const uint8_t *p, size_t n) { return odr_crc_portable(value, p, n); }
#endif

#endif
