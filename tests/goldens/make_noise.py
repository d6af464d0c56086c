"""Writes noise.json: the noise of seeds by its definition, independently of the Rust code.

Needs Python alone. Its floats are IEEE 754 doubles, whose operations round as those of Rust.
"""

import json
import pathlib
import struct

M32 = (1 << 32) - 1
M64 = (1 << 64) - 1


def philox(counter, key):
    """Philox4x32-10."""
    counter, key = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [b >> 32 ^ counter[1] ^ key[0], b & M32, a >> 32 ^ counter[3] ^ key[1], a & M32]
        key = [(key[0] + 0x9E3779B9) & M32, (key[1] + 0xBB67AE85) & M32]
    return counter


def number(seed, position, token):
    key = (seed & M32, seed >> 32)
    words = [philox((token // 4, half, position & M32, position >> 32), key) for half in (0, 1)]
    return words[0][token % 4] << 32 | words[1][token % 4]


def area_tangent_twice(s):
    square, total = s * s, 0.0
    for odd in range(23, 1, -2):
        total = (total + 1.0 / odd) * square
    return 2.0 * (s + s * total)


def exponential(n):
    def share(n):
        return (float(n) + 0.5) * 2.0**-64

    if n >> 63 == 0:
        x = share(n)
        y = 1.0 - x
    else:
        y = share(M64 - n)
        x = 1.0 - y
    if y >= 0.7071067811865476:
        return area_tangent_twice(x / (2.0 - x))
    bits = struct.unpack("<Q", struct.pack("<d", y))[0]
    exponent = 1023 - (bits >> 52)
    scaled = struct.unpack("<d", struct.pack("<Q", bits & ((1 << 52) - 1) | 1023 << 52))[0]
    if scaled >= 1.4142135623730951:
        scaled, exponent = scaled * 0.5, exponent - 1
    return exponent * 0.6931471805599453 + area_tangent_twice((1.0 - scaled) / (1.0 + scaled))


def mixed(z):
    z = z + 0x9E3779B97F4A7C15 & M64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def seed_of(seed, index):
    return mixed(mixed(seed) + index & M64) if index else seed


def bits(value):
    return f"{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"


def main():
    seeds = [0, 1, 7, 1 << 32, 0x0123456789ABCDEF, M64]
    positions = [0, 1, 4097, 1 << 32, M64]
    tokens = [0, 1, 2, 3, 4, 5, 31999, 151935, M32]
    noise = [
        [str(seed), str(position), token, bits(exponential(number(seed, position, token)))]
        for seed in seeds
        for position in positions
        for token in tokens
    ]
    ends = [0, 1, 1 << 52, (1 << 63) - 1, 1 << 63, (1 << 63) + 1, M64 - 1, M64]
    ends += [int(M64 * i / 97) for i in range(1, 97)]
    # Winners of a race among tokens whose weights are 1, 2, ... 50, in order of arrival.
    races = []
    for seed in range(20):
        speeds = [(v + 1) / exponential(number(seed, 3, v)) for v in range(50)]
        order = sorted(range(50), key=lambda v: (-speeds[v], v))
        races.append(order[:8])
    out = {
        "noise": noise,
        "exponentials": [[str(n), bits(exponential(n))] for n in ends],
        "races": races,
        "seeds": [[str(s), i, str(seed_of(s, i))] for s in seeds for i in (0, 1, 2, 1 << 32)],
    }
    path = pathlib.Path(__file__).parent / "noise.json"
    path.write_text(json.dumps(out, indent=0).replace(",\n", ", ") + "\n")


main()
