/* The walk kernel's algorithm in C: what a compiler makes of it is the measure for ours. */
#include <stdint.h>

static int varint(const uint8_t *b, int64_t p, int64_t end, int max, int64_t *value, int64_t *next) {
    uint64_t raw = 0;
    for (int taken = 0; taken < max; taken++) {
        if (p + taken >= end) return 1;
        uint8_t byte = b[p + taken];
        raw |= (uint64_t)(byte & 0x7F) << (7 * taken);
        if (byte < 0x80) {
            if (max == 5 && raw > 0xFFFFFFFFu) return 2;
            if (taken == 9 && byte > 1) return 2;
            *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            *next = p + taken + 1;
            return 0;
        }
    }
    return 2;
}

/* Walks `count` records of one payload into five wide and five narrow columns of `room` places. */
int64_t reference_walk(const uint8_t *b, int64_t p, int64_t end, int64_t count, int64_t base_offset,
                       int64_t base_timestamp, int64_t *wide, int32_t *narrow, int64_t at,
                       int64_t room, int64_t batch) {
    for (int64_t i = 0; i < count; i++, at++) {
        int64_t length, ts, off, klen, vlen, hcount, key, value, headers;
        if (at >= room || varint(b, p, end, 5, &length, &p)) return -1;
        if (length < 1 || length > end - p) return -1;
        int64_t stop = p + length;
        if (varint(b, p + 1, stop, 10, &ts, &p) || varint(b, p, stop, 5, &off, &p)) return -1;
        if (varint(b, p, stop, 5, &klen, &key) || klen < -1 || klen > stop - key) return -1;
        p = key + (klen > 0 ? klen : 0);
        if (varint(b, p, stop, 5, &vlen, &value) || vlen < -1 || vlen > stop - value) return -1;
        p = value + (vlen > 0 ? vlen : 0);
        if (varint(b, p, stop, 5, &hcount, &headers) || hcount < 0 || hcount > stop - headers)
            return -1;
        p = headers;
        for (int64_t h = 0; h < hcount; h++) {
            int64_t size;
            if (varint(b, p, stop, 5, &size, &p) || size < 0 || size > stop - p) return -1;
            p += size;
            if (varint(b, p, stop, 5, &size, &p) || size < -1 || size > stop - p) return -1;
            p += size > 0 ? size : 0;
        }
        if (p != stop) return -1;
        wide[at] = base_offset + off;
        wide[room + at] = base_timestamp + ts;
        wide[2 * room + at] = key;
        wide[3 * room + at] = value;
        wide[4 * room + at] = headers;
        narrow[at] = (int32_t)klen;
        narrow[room + at] = (int32_t)vlen;
        narrow[2 * room + at] = (int32_t)(stop - headers);
        narrow[3 * room + at] = (int32_t)hcount;
        narrow[4 * room + at] = (int32_t)batch;
    }
    return at;
}

/* The same over a window: rows are (payload start, payload end, count, base offset, base time). */
int64_t reference_window(const uint8_t *b, const int64_t *rows, int64_t batches, int64_t *wide,
                         int32_t *narrow, int64_t room) {
    int64_t at = 0;
    for (int64_t i = 0; i < batches && at >= 0; i++)
        at = reference_walk(b, rows[i], rows[batches + i], rows[2 * batches + i],
                            rows[3 * batches + i], rows[4 * batches + i], wide, narrow, at, room, i);
    return at;
}
