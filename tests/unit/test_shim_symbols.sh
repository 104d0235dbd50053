#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shim exports every function of the driver, is called libcuda.so.1, and nothing else leaks out.
#   test_shim_symbols.sh SHIM SYMBOLS
set -eu
shim=$1 symbols=$2

exported=$(nm -D --defined-only "$shim" | awk '{ print $3 }' | LC_ALL=C sort)
wanted=$({ sed -n 's/^GP_CU.*(\(cu.*\))$/\1/p' "$symbols"; echo gpupres_shim_version; } | LC_ALL=C sort)
if [ "$exported" != "$wanted" ]; then
	echo "exported functions differ from $symbols (< lacking, > too many):" >&2
	d=$(mktemp -d)
	echo "$wanted" >"$d/wanted"
	echo "$exported" >"$d/exported"
	diff "$d/wanted" "$d/exported" >&2 || :
	rm -r "$d"
	exit 1
fi
readelf -d "$shim" | grep -q 'SONAME.*\[libcuda\.so\.1\]' || {
	echo "$shim: SONAME is not libcuda.so.1" >&2
	exit 1
}
