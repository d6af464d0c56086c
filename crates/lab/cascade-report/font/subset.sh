#!/usr/bin/env bash
# Makes the two files beside it from Inter 3.19: Latin-1, Greek and some signs, with kerning.
# Usage: subset.sh FOLDER, which holds Inter-Regular.otf and Inter-SemiBold.otf. Needs fonttools (4.68 was used).
set -euo pipefail
unicodes="U+20-7E,U+A0-FF,U+131,U+152-153,U+160-161,U+178,U+17D-17E,U+2C6,U+2DA,U+2DC,U+391-3A9,U+3B1-3C9"
unicodes+=",U+2013-2014,U+2018-201E,U+2020-2022,U+2026,U+2030,U+2032-2033,U+2039-203A,U+2070-208E,U+20AC"
unicodes+=",U+2190-2193,U+2202,U+2206,U+2211-2212,U+221A,U+221E,U+2248,U+2260,U+2264-2265,U+FFFD"
for weight in Regular SemiBold; do
  pyftsubset "$1/Inter-$weight.otf" --unicodes="$unicodes" --layout-features=kern --desubroutinize \
    --name-IDs='*' --no-recalc-timestamp --output-file="$(dirname "$0")/Inter-$weight.otf"
done
